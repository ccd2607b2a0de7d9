/* response.c - reads the app's response and passes it to the server. An invalid response raises a ResponseError whose message
 * describes the value that was found instead of a valid one. */
#include "ruby_host.h"

static uint16_t read_status(VALUE status) {
    VALUE number = status;
    if (RB_UNLIKELY(!RB_FIXNUM_P(number)))
        number = NIL_P(status) ? Qundef : rb_check_funcall(status, names.to_i, 0, NULL);
    /* After a status below 200, except 101, a client would wait for another response (RFC 9110, section 15.2). */
    if (RB_UNLIKELY(number == Qundef || !RB_FIXNUM_P(number)
                    || ((FIX2LONG(number) < 200 || FIX2LONG(number) > 999) && number != INT2FIX(101))))
        rb_raise(response_error, "the status must be a number from 200 to 999, or 101, not %" PRIsVALUE,
                 describe_value(status));
    return (uint16_t)FIX2LONG(number);
}

/* Takes the elements of a response, which has three at least. */
static void take_elements(Call *call, VALUE response) {
    VALUE body = RARRAY_AREF(response, 2);
    call->status = RARRAY_AREF(response, 0);
    call->headers = RARRAY_AREF(response, 1);
    call->body = body;
    /* A plain Array has no close. */
    call->close_due = !RB_SPECIAL_CONST_P(body) && RBASIC_CLASS(body) != rb_cArray;
}

void response_ignore(Call *call) {
    VALUE response = rb_check_array_type(call->response);
    if (!NIL_P(response) && RARRAY_LEN(response) >= 3)
        take_elements(call, response);
}

static void read_triplet(Call *call) {
    VALUE response = call->response;
    if (RB_UNLIKELY(!RB_TYPE_P(response, T_ARRAY))) {
        response = rb_check_array_type(response);
        if (NIL_P(response))
            rb_raise(response_error, "the app must return an Array of status, headers and body, not %" PRIsVALUE,
                     describe_value(call->response));
    }
    if (RB_LIKELY(RARRAY_LEN(response) >= 3))
        take_elements(call, response);
    if (RB_UNLIKELY(RARRAY_LEN(response) != 3))
        rb_raise(response_error, "the app must return an Array of 3 elements, not of %ld", RARRAY_LEN(response));
}

/* The callable that gets the socket after the head; or Qfalse. */
static VALUE heir(const Call *call) {
    if (call->head.hijack)
        return call->head.hijack;
    if ((call->head.protocol || call->head.status == 101) && !RB_SPECIAL_CONST_P(call->body)
        && rb_respond_to(call->body, names.call))
        return call->body;
    return Qfalse;
}

/* Sends a response whose parts are made by Ruby code, or need Ruby code to be read. */
static void send_by_copy(Call *call) {
    VALUE callable;
    head_copy(&call->head, call->headers);
    callable = heir(call);
    if (callable && body_is_unwanted(call))
        body_send_none(call);
    else if (callable)
        hijack_respond(call, callable);
    else if (RB_TYPE_P(call->body, T_ARRAY))
        body_send_array(call, call->body);
    else
        body_send(call);
}

void response_send(Call *call) {
    Head *head = &call->head;
    read_triplet(call);
    head->status = read_status(call->status);
    if (RB_LIKELY(body_is_plain(call->body) && head_point(head, call->headers) && !head->hijack && !head->protocol
                  && head->status != 101))
        body_send_array(call, call->body);
    else
        send_by_copy(call);
}
