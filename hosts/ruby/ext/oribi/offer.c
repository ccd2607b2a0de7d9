/* offer.c - rack.upgrade?: whether the connection of a request may stay open without the app, as a WebSocket or as a stream of
 * events. An edge owns such connections: docs/live.md. */
#include "ruby_host.h"

static VALUE key_question, websocket, event_stream;

void offer_define(void) {
    key_question = rb_enc_interned_str(LITERAL("rack.upgrade?"), rb_utf8_encoding());
    rb_gc_register_mark_object(key_question);
    websocket = ID2SYM(rb_intern("websocket"));
    event_stream = ID2SYM(rb_intern("sse"));
}

void offer_make(Call *call) {
    oribi_live offer;
    if (call->live == LIVE_EVENT) {
        /* The variables of a web server in front may have any name. */
        if (call->request->gateway || !oribi_has_live_connections(call->lane))
            call->live = LIVE_NONE;
        return;
    }
    offer = oribi_live_offer(call->lane, call->request);
    call->live = offer == ORIBI_LIVE_WEBSOCKET ? LIVE_WEBSOCKET : offer == ORIBI_LIVE_EVENT_STREAM ? LIVE_STREAM : LIVE_NONE;
    if (offer != ORIBI_LIVE_NONE)
        rb_hash_aset(call->environment, key_question, offer == ORIBI_LIVE_WEBSOCKET ? websocket : event_stream);
}
