/* observing.c - callbacks for the client of a response: there is room for more content, or the client has gone.
 *
 * They are called where an event loop runs (loop.c), between its rounds.
 */
#include "perl_host.h"

/* Calls a callback of the app, with the writer if it still exists. */
static void call_back(pTHX_ SV *callback, SV *writer) {
    ENTER;
    SAVETMPS;
    sv_2mortal(SvREFCNT_inc_simple_NN(callback));
    if (!protected_call(aTHX_ callback, writer ? sv_2mortal(newRV_inc(writer)) : NULL))
        app_log_error(aTHX_ NULL, "a callback for a client died");
    FREETMPS;
    LEAVE;
}

static void call_one(pTHX_ Ticket *ticket) {
    const int room = oribi_has_room(ticket->lane, ticket->exchange);
    if (room > 0 && ticket->wants_room && ticket->on_room) {
        ticket_want(ticket, FALSE);
        call_back(aTHX_ ticket->on_room, ticket->writer);
    } else if (room < 0) {
        SV *callback = SvREFCNT_inc(ticket->on_gone);
        if (ticket->state == TICKET_STREAMING)
            ticket->state = TICKET_GONE;
        ticket_ignore(aTHX_ ticket);
        if (callback) {
            call_back(aTHX_ callback, NULL);
            SvREFCNT_dec_NN(callback);
        }
    }
}

bool observing_call(pTHX_ Context *context) {
    size_t count = 0, due = 0;
    Ticket **tickets;
    for (const Ticket *ticket = context->observers; ticket; ticket = ticket->after)
        count++;
    if (count == 0)
        return FALSE;
    ENTER;
    SAVETMPS;
    /* The callbacks change the list, and may free tickets. */
    tickets = (Ticket **)SvPVX(sv_2mortal(newSV(count * sizeof(Ticket *))));
    for (Ticket *ticket = context->observers; ticket; ticket = ticket->after) {
        const int room = oribi_has_room(ticket->lane, ticket->exchange);
        if (room < 0 || (room > 0 && ticket->wants_room)) {
            ticket->references++;
            tickets[due++] = ticket;
        }
    }
    for (size_t i = 0; i < due; i++) {
        if (ticket_observes(tickets[i]))
            call_one(aTHX_ tickets[i]);
        ticket_release(aTHX_ tickets[i]);
    }
    FREETMPS;
    LEAVE;
    return due > 0;
}

/* Sets one of the callbacks of a ticket. */
static void set_callback(pTHX_ SV **place, SV *callback) {
    SV *before = *place;
    *place = callback && SvOK(callback) ? newSVsv(callback) : NULL;
    sv_2mortal(before);
}

static void check_callback(pTHX_ SV *callback) {
    if (SvOK(callback) && !(SvROK(callback) && SvTYPE(SvRV(callback)) == SVt_PVCV))
        croak("the callback must be a code reference or undef, not %s", text_describe(aTHX_ callback));
}

XS(observing_poll) {
    dXSARGS;
    Ticket *ticket;
    SV *callback = items > 1 ? ST(1) : &PL_sv_undef;
    if (items < 1 || items > 2 || !SvROK(ST(0)))
        croak("usage: $writer->poll_cb(sub { my ($writer) = @_; ... }), or $writer->poll_cb(undef)");
    check_callback(aTHX_ callback);
    ticket = ticket_of(aTHX_ SvRV(ST(0)));
    if (!ticket->context->looping)
        croak("poll_cb needs an event loop: see --loop");
    if (ticket->state != TICKET_STREAMING)
        XSRETURN_EMPTY;
    set_callback(aTHX_ &ticket->on_room, callback);
    set_callback(aTHX_ &ticket->kept, SvOK(callback) ? sv_2mortal(newRV_inc(SvRV(ST(0)))) : NULL);
    ticket_want(ticket, ticket->on_room != NULL);
    if (ticket->on_room)
        ticket_observe(ticket);
    XSRETURN_EMPTY;
}

XS(observing_gone) {
    dXSARGS;
    Ticket *ticket;
    if (items != 2 || !SvROK(ST(0)))
        croak("usage: Oribi::on_gone($responder, sub { ... }), or with a writer");
    check_callback(aTHX_ ST(1));
    ticket = ticket_of(aTHX_ SvRV(ST(0)));
    if (!ticket->context->looping)
        croak("Oribi::on_gone needs an event loop: see --loop");
    if (ticket->state == TICKET_OVER)
        XSRETURN_EMPTY;
    set_callback(aTHX_ &ticket->on_gone, ST(1));
    if (ticket->on_gone)
        ticket_observe(ticket);
    XSRETURN_EMPTY;
}
