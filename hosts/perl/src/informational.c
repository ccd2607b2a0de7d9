/* informational.c - psgix.informational: informational responses. */
#include "perl_host.h"

SV *informational_new(pTHX_ Context *context) {
    Ticket *ticket = ticket_new(context);
    CV *code = newXS(NULL, informational_send, __FILE__);
    /* Dropping it owes nothing to the client. */
    ticket->state = TICKET_OVER;
    ticket_attach(aTHX_ ticket, (SV *)code);
    return newRV_noinc((SV *)code);
}

bool informational_is_private(SV *code) {
    return SvTYPE(code) == SVt_PVCV && SvREFCNT(code) == 1 && !SvOBJECT(code) && ticket_is_alone(code);
}

void informational_rebind(Context *context, SV *code) {
    Ticket *ticket = (Ticket *)SvMAGIC(code)->mg_ptr;
    ticket->lane = context->lane;
    ticket->exchange = context->exchange;
}

XS(informational_send) {
    dXSARGS;
    Ticket *ticket = ticket_of(aTHX_ (SV *)cv);
    Head head;
    SV *headers;
    const char *wrong;
    IV status;
    if (items != 2)
        croak("usage: $env->{'psgix.informational'}->($status, [@headers])");
    ticket_hold(aTHX_ (SV *)cv);
    headers = response_settle_fields(aTHX_ ST(1));
    status = SvIV(ST(0));
    /* The status was an object, whose code may have changed the headers. */
    if (UNLIKELY(!text_is_quiet(ST(0))))
        headers = response_settle_fields(aTHX_ ST(1));
    if (status < 100 || status > 199 || status == 101)
        croak("an informational status is a number from 100 to 199 without 101, not %s", text_describe(aTHX_ ST(0)));
    if (socket_is_used(aTHX_ ticket->context, ticket->exchange))
        XSRETURN_EMPTY;
    socket_note_output(ticket->context, ticket->exchange);
    wrong = response_fields(aTHX_ headers, &head);
    if (!wrong)
        wrong = response_failure(
            aTHX_ oribi_inform(ticket->lane, ticket->exchange, (uint16_t)status, head.fields, head.field_count));
    if (wrong)
        croak("%s", wrong);
    XSRETURN_EMPTY;
}
