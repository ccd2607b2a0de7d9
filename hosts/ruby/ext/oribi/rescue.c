/* rescue.c - answers to exceptions and other jumps that have left the app's code. */
#include "ruby_host.h"

/* Lets the app's own error handler answer. */
static VALUE answer_by_handler(VALUE argument) {
    Call *call = (Call *)argument;
    VALUE arguments[] = {call->error, call->environment, INT2FIX(is_request_timeout(call->error) ? 504 : 500)};
    call->response = rb_funcallv(server.error_handler, names.call, 3, arguments);
    head_prepare(&call->head);
    if (ticket_is_taken(call->ticket))
        call->state = CALL_TAKEN;
    else
        response_send(call);
    return Qnil;
}

static VALUE answer_by_page(VALUE argument) {
    Call *call = (Call *)argument;
    static const oribi_field fields[] = {{{"content-type", 12}, {"text/html; charset=utf-8", 24}}};
    VALUE text = page_text(call->error, call->environment);
    const oribi_bytes part = {RSTRING_PTR(text), (size_t)RSTRING_LEN(text)};
    oribi_respond(call->lane, call->exchange, 500, fields, 1, &part, 1);
    call->state = CALL_OVER;
    RB_GC_GUARD(text);
    return Qnil;
}

void rescue_answer(Call *call, int state) {
    VALUE error;
    /* Without an environment, there is nothing to show and nothing to handle. */
    const bool answerable = call->state == CALL_OPEN && !NIL_P(call->environment);
    bool over;
    if (is_stray())
        stray_end_as_program(state);
    error = failure_take_error();
    over = is_request_timeout(error);
    /* For a request that has taken too long, the backtrace is in the log already. An app that waits for nobody has not failed. */
    if (!over && !(call->cancellation && error == call->cancellation) && failure_log_error(NULL, call->environment, error, NULL) == GUARD_EXITED)
        call->context->retiring = true;
    call->error = error;
    if (call->ticket && ticket_is_taken(call->ticket)) {
        call->state = CALL_TAKEN;
        /* Nothing else ends the connection, and its client would wait for more. */
        ticket_reset(call->ticket);
    }
    if (call->state == CALL_TAKEN || call->state == CALL_OVER)
        return;
    if (answerable && call->ticket && !NIL_P(error) && !NIL_P(server.error_handler)) {
        /* The handler's response has a body of its own. */
        body_close(call);
        failure_guard("the error handler failed", call->environment, answer_by_handler, (VALUE)call);
        /* If the handler's response has begun, it can no longer be replaced. */
        if (call->state == CALL_STARTED)
            oribi_abandon(call->lane, call->exchange);
        if (call->state != CALL_OPEN)
            return;
    }
    if (answerable && !NIL_P(error) && !over && server.development
        && failure_guard("the error page failed", call->environment, answer_by_page, (VALUE)call) == GUARD_FINE)
        return;
    oribi_abandon(call->lane, call->exchange);
    call->state = CALL_OVER;
}
