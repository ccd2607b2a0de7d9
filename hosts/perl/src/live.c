/* live.c - connections that stay open while no worker has anything to do with them: WebSockets and streams of events. An edge
 * owns them, and sends their events as requests; lib/Oribi/Live.pm calls the app's handlers, and answers with commands.
 */
#include "perl_host.h"

static bool is(oribi_bytes bytes, const char *text) {
    return bytes.size == strlen(text) && foldEQ(bytes.data, text, bytes.size);
}

/* The value of a variable; empty without it. */
static oribi_bytes value_of(const oribi_request *request, const char *name) {
    for (size_t i = ORIBI_FIXED_VARIABLES; i < request->variable_count; i++)
        if (is(request->variables[i].name, name))
            return request->variables[i].value;
    return (oribi_bytes){"", 0};
}

/* Whether a word is in a list that commas separate. */
static bool has_word(oribi_bytes list, const char *word) {
    const char *at = list.data, *end = list.data + list.size;
    while (at < end) {
        const char *comma = (const char *)memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end, *next = comma ? comma + 1 : end;
        while (at < stop && (*at == ' ' || *at == '\t'))
            at++;
        while (stop > at && (stop[-1] == ' ' || stop[-1] == '\t'))
            stop--;
        if (is((oribi_bytes){at, (size_t)(stop - at)}, word))
            return TRUE;
        at = next;
    }
    return FALSE;
}

/* 16 bytes in base64 (RFC 6455, section 4.1). */
static bool is_key(oribi_bytes key) {
    for (size_t i = 0; i + 2 < key.size; i++)
        if (!memchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", key.data[i], 64))
            return FALSE;
    return key.size == 24 && key.data[22] == '=' && key.data[23] == '=';
}

/* An extended CONNECT of HTTP/2 arrives as a handshake of HTTP/1.1. */
static bool is_handshake(const oribi_request *request) {
    return !is(request->variables[ORIBI_SERVER_PROTOCOL].value, "HTTP/1.0")
           && has_word(value_of(request, "HTTP_UPGRADE"), "websocket")
           && has_word(value_of(request, "HTTP_CONNECTION"), "upgrade")
           && is(value_of(request, "HTTP_SEC_WEBSOCKET_VERSION"), "13") && is_key(value_of(request, "HTTP_SEC_WEBSOCKET_KEY"));
}

/* The edge keeps the requests of which this is so. */
static bool accepts_events(oribi_bytes accept) {
    return accept.size >= 17 && memEQ(accept.data, "text/event-stream", 17);
}

LiveOffer live_offer(const Context *context, const oribi_request *request) {
    if (request->gateway || !is(request->variables[ORIBI_REQUEST_METHOD].value, "GET")
        || !oribi_has_live_connections(context->lane))
        return LIVE_NOTHING;
    if (is_handshake(request))
        return LIVE_WEBSOCKET;
    return accepts_events(value_of(request, "HTTP_ACCEPT")) ? LIVE_STREAM : LIVE_NOTHING;
}

/* ---- For lib/Oribi/Live.pm --------------------------------------------------------------------------------------------- */

/* The commands that open a connection. */
enum { COMMAND_ACCEPT = 1, COMMAND_HOLD = 8 };

XS(live_command) {
    dXSARGS;
    Context *context = interruption_context(aTHX);
    oribi_result result;
    const char *bytes;
    STRLEN size;
    if (items != 1)
        croak("usage: Oribi::Live::command($bytes)");
    bytes = SvPVbyte(ST(0), size);
    if (!context)
        croak("messages can be sent only during a request or an event");
    if (!oribi_has_live_connections(context->lane))
        croak("WebSockets, event streams and channels need an edge: --edge on");
    if (size > 0 && (bytes[0] == COMMAND_ACCEPT || bytes[0] == COMMAND_HOLD))
        context->opened = context->exchange + 1;
    result = oribi_command(context->lane, context->exchange, bytes, size);
    if (result == ORIBI_INVALID || result == ORIBI_FAILED)
        croak("%s", oribi_last_error());
    if (result == ORIBI_OK)
        XSRETURN_YES;
    XSRETURN_NO;
}

/* The number of the exchange that is being answered; 0 for none. */
XS(live_exchange) {
    dXSARGS;
    const Context *context = interruption_context(aTHX);
    PERL_UNUSED_VAR(items);
    XSprePUSH;
    /* A floating-point number would not hold all bits. */
    mXPUSHu(context ? (UV)context->exchange + 1 : 0);
    XSRETURN(1);
}

/* The environment of the request that is being answered. */
XS(live_environment) {
    dXSARGS;
    const Context *context = interruption_context(aTHX);
    PERL_UNUSED_VAR(items);
    XSprePUSH;
    if (!context || !context->present)
        XSRETURN_UNDEF;
    mXPUSHs(newRV_inc((SV *)context->present));
    XSRETURN(1);
}
