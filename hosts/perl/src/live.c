/* live.c - connections that stay open while no worker has anything to do with them: WebSockets and streams of events. An edge
 * owns them, and sends their events as requests; lib/Oribi/Live.pm calls the app's handlers, and answers with commands, by
 * these functions.
 */
#include "perl_host.h"

/* The commands that open a connection, and that which needs none. */
enum { COMMAND_ACCEPT = 1, COMMAND_PUBLISH = 6, COMMAND_HOLD = 8 };

XS(live_command) {
    dXSARGS;
    Context *context = interruption_context(aTHX);
    oribi_result result;
    const char *bytes;
    STRLEN size;
    if (items != 1)
        croak("usage: Oribi::Live::command($bytes)");
    bytes = SvPVbyte(ST(0), size);
    if (!context && (size == 0 || bytes[0] != COMMAND_PUBLISH))
        croak("messages to one client can be sent only during a request or an event");
    if (!context) {
        if (!oribi_can_post())
            croak("messages can be sent only by a server with an edge (--edge on), and by its workers");
        if (oribi_post(bytes, size, NULL) < 0)
            croak("%s", oribi_last_error());
        XSRETURN_YES;
    }
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
