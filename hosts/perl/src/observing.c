/* observing.c - callbacks for the client of a response: there is room for more content, or the client has gone.
 *
 * They are called where an event loop runs (loop.c), between its rounds.
 */
#include "perl_host.h"

/* Calls a callback of the app, with the writer if it still exists. FALSE if it died. */
static bool call_back(pTHX_ const Ticket *ticket, SV *callback, SV *writer) {
    bool returned;
    ENTER;
    SAVETMPS;
    sv_2mortal(SvREFCNT_inc_simple_NN(callback));
    returned = protected_call(aTHX_ callback, writer ? sv_2mortal(newRV_inc(writer)) : NULL) != NULL;
    if (!returned)
        app_log_error(aTHX_ ticket_environment(ticket), writer ? "a callback for room died, so its response is cut off"
                                                               : "a callback for a client died");
    FREETMPS;
    LEAVE;
    return returned;
}

/* The app will not continue a response whose callback has died, so nothing else would end it. */
static void cut_off(pTHX_ Ticket *ticket) {
    if (ticket->state != TICKET_STREAMING)
        return;
    oribi_abandon(ticket->lane, ticket->exchange);
    ticket_finish(aTHX_ ticket);
}

static void call_one(pTHX_ Ticket *ticket) {
    const int room = oribi_has_room(ticket->lane, ticket->exchange);
    if (room > 0 && ticket->wants_room && ticket->on_room) {
        ticket_want(ticket, FALSE);
        if (!call_back(aTHX_ ticket, ticket->on_room, ticket->writer))
            cut_off(aTHX_ ticket);
    } else if (room < 0) {
        SV *callback = SvREFCNT_inc(ticket->on_gone);
        if (ticket->state == TICKET_STREAMING)
            ticket->state = TICKET_GONE;
        ticket_ignore(aTHX_ ticket);
        if (callback) {
            (void)call_back(aTHX_ ticket, callback, NULL);
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

/* Sets the callback of the request that is being answered, whose ticket may come later. */
static void set_for_request(pTHX_ SV *callback, bool gone) {
    Context *context = interruption_context(aTHX);
    if (!context || !context->answering)
        croak("%s belongs to the call for its request", gone ? "oribi.on_gone" : "oribi.on_room");
    if (context->begun) {
        Ticket *ticket = context->begun;
        if (ticket->state == TICKET_OVER)
            return;
        set_callback(aTHX_ gone ? &ticket->on_gone : &ticket->on_room, callback);
        if (!gone)
            ticket_want(ticket, ticket->on_room && ticket->writer);
        ticket_observe(ticket);
        return;
    }
    if (context->observed != context->exchange) {
        set_callback(aTHX_ &context->next_gone, NULL);
        set_callback(aTHX_ &context->next_room, NULL);
        context->observed = context->exchange;
    }
    set_callback(aTHX_ gone ? &context->next_gone : &context->next_room, callback);
}

void observing_begin(pTHX_ Context *context, Ticket *ticket) {
    context->begun = ticket;
    if (!ticket || (!context->next_gone && !context->next_room))
        return;
    if (context->observed == context->exchange) {
        ticket->on_gone = context->next_gone;
        ticket->on_room = context->next_room;
        context->next_gone = context->next_room = NULL;
        ticket_observe(ticket);
    }
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

XS(observing_request_gone) {
    dXSARGS;
    if (items != 1)
        croak("usage: $env->{'oribi.on_gone'}->(sub { ... }), or undef for none");
    check_callback(aTHX_ ST(0));
    set_for_request(aTHX_ ST(0), TRUE);
    XSRETURN_EMPTY;
}

XS(observing_request_room) {
    dXSARGS;
    if (items != 1)
        croak("usage: $env->{'oribi.on_room'}->(sub { ... }), or undef for none");
    check_callback(aTHX_ ST(0));
    set_for_request(aTHX_ ST(0), FALSE);
    XSRETURN_EMPTY;
}
