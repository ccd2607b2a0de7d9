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

static bool is(oribi_bytes bytes, const char *text) {
    return bytes.size == strlen(text) && strncasecmp(bytes.data, text, bytes.size) == 0;
}

/* The value of a variable; empty without it. */
static oribi_bytes value_of(const Call *call, const char *name) {
    for (size_t i = ORIBI_FIXED_VARIABLES; i < call->request->variable_count; i++) {
        const oribi_variable *variable = &call->request->variables[i];
        if (is(variable->name, name))
            return variable->value;
    }
    return (oribi_bytes){"", 0};
}

/* Whether a word is in a list that commas separate. */
static bool has_word(oribi_bytes list, const char *word) {
    const char *at = list.data, *end = list.data + list.size;
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end, *next = comma ? comma + 1 : end;
        while (at < stop && (*at == ' ' || *at == '\t'))
            at++;
        while (stop > at && (stop[-1] == ' ' || stop[-1] == '\t'))
            stop--;
        if (is((oribi_bytes){at, (size_t)(stop - at)}, word))
            return true;
        at = next;
    }
    return false;
}

/* 16 bytes in base64 (RFC 6455, section 4.1). */
static bool is_key(oribi_bytes key) {
    for (size_t i = 0; i + 2 < key.size; i++)
        if (!memchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", key.data[i], 64))
            return false;
    return key.size == 24 && key.data[22] == '=' && key.data[23] == '=';
}

/* An extended CONNECT of HTTP/2 arrives as a handshake of HTTP/1.1. */
static bool is_handshake(const Call *call) {
    return !is(call->request->variables[ORIBI_SERVER_PROTOCOL].value, "HTTP/1.0")
           && has_word(value_of(call, "HTTP_UPGRADE"), "websocket") && has_word(value_of(call, "HTTP_CONNECTION"), "upgrade")
           && is(value_of(call, "HTTP_SEC_WEBSOCKET_VERSION"), "13") && is_key(value_of(call, "HTTP_SEC_WEBSOCKET_KEY"));
}

/* The edge keeps the requests of which this is so. */
static bool accepts_events(const Call *call) {
    const oribi_bytes accept = value_of(call, "HTTP_ACCEPT");
    const size_t size = sizeof("text/event-stream") - 1;
    return accept.size >= size && memcmp(accept.data, "text/event-stream", size) == 0;
}

void offer_make(Call *call) {
    const bool can = !call->request->gateway && is(call->request->variables[ORIBI_REQUEST_METHOD].value, "GET")
                     && oribi_has_live_connections(call->lane);
    if (call->live == LIVE_EVENT) {
        /* The variables of a web server in front may have any name. */
        if (!can)
            call->live = LIVE_NONE;
        return;
    }
    call->live = LIVE_NONE;
    if (can && is_handshake(call)) {
        call->live = LIVE_WEBSOCKET;
        rb_hash_aset(call->environment, key_question, websocket);
    } else if (can && accepts_events(call)) {
        call->live = LIVE_STREAM;
        rb_hash_aset(call->environment, key_question, event_stream);
    }
}
