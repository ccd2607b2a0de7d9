/* call.c - answers an exchange: from the request to the app and back. */
#include "ruby_host.h"

static VALUE run(VALUE argument) {
    Call *call = (Call *)argument;
    environment_fill(call);
    if (RB_UNLIKELY(call->live != LIVE_NONE)) {
        live_answer(call);
        return Qnil;
    }
    call->response = rb_funcallv(server.app, names.call, 1, &call->environment);
    call_lane(call);
    if (RB_UNLIKELY(ticket_is_taken(call->ticket))) {
        call->state = CALL_TAKEN;
        response_ignore(call);
    } else {
        response_send(call);
    }
    return Qnil;
}

void call_detach(const Call *call, bool over) {
    if (call->input)
        input_detach(call->input, over);
    if (RB_UNLIKELY(call->data != Qfalse))
        input_detach(call->data, over);
}

static inline void perform(Call *call) {
    int state;
    rb_protect(run, (VALUE)call, &state);
    if (RB_UNLIKELY(state != 0))
        rescue_answer(call, state);
    body_close(call);
    call_lane(call);
    /* The app has hijacked the socket: the server closes its own descriptor. */
    if (RB_UNLIKELY(call->state == CALL_TAKEN))
        oribi_abandon(call->lane, call->exchange);
    /* An app that has hijacked the socket, or continues to stream, may still read the content. */
    call_detach(call, call->state != CALL_TAKEN && call->state != CALL_KEPT);
}

void call_perform(Call *call) {
    perform(call);
}

/* A thread that must leave receives no exceptions any more, so the mark comes last. Inline this would cost each request more. */
static __attribute__((noinline)) void undo(Context *context) {
    if (context->due & DUE_INTERRUPTION)
        deadline_forget(context);
    if (context->due & DUE_MARK)
        io_bound_end(context);
}

uint32_t call_answer(void *pointer, oribi_lane *lane, oribi_exchange exchange, const oribi_request *request) {
    Context *context = (Context *)pointer;
    Call call = call_new(context, lane, exchange, request);
    context->lane = lane;
    context->call = &call;
    head_prepare(&call.head);
    perform(&call);
    if (RB_LIKELY(call.state != CALL_KEPT))
        deferred_note(&call);
    context->call = NULL;
    if (RB_UNLIKELY(context->due))
        undo(context);
    RB_GC_GUARD(call.ticket);
    app_metrics_report_collections();
    return deferred_next(context);
}
