/* ticket.c - the right to answer an exchange at any later time. Perl values refer to a ticket by magic. When the last of these
 * references is removed before the response is complete, the exchange is given up: so no client waits for ever, and no
 * truncated response looks complete.
 */
#include "perl_host.h"

void ticket_drop_head(Ticket *ticket) {
    struct KeptHead *head = ticket->head;
    ticket->head = NULL;
    Safefree(head);
}

HV *ticket_environment(const Ticket *ticket) {
    const Context *context = ticket->context;
    if (ticket->environment)
        return SvROK(ticket->environment) ? (HV *)SvRV(ticket->environment) : NULL;
    return context->answering && context->exchange == ticket->exchange ? context->present : NULL;
}

/* A response that outlived its callback is over: handles the cleanup of its environment, which nothing else does. */
static void finish_environment(pTHX_ Ticket *ticket) {
    SV *environment = ticket->environment;
    ticket->environment = NULL;
    if (environment) {
        if (SvROK(environment) && SvTYPE(SvRV(environment)) == SVt_PVHV)
            cleanup_finished(aTHX_ ticket->context, (HV *)SvRV(environment));
        SvREFCNT_dec_NN(environment);
    }
}

/* Whether an app that waits in an event loop drops the response to a client that has gone. */
static bool has_left(const Ticket *ticket) {
    return ticket->context->looping && oribi_has_room(ticket->lane, ticket->exchange) < 0;
}

void ticket_release(pTHX_ Ticket *ticket) {
    if (--ticket->references > 0)
        return;
    if (ticket->state != TICKET_OVER && !ticket->context->closing && ticket->forks == forks_count()) {
        const char *what = ticket->state == TICKET_WAITING ? "the app dropped the responder without calling it"
                                                           : "the app dropped the writer without closing it";
        if (ticket->state != TICKET_GONE && !socket_is_taken(ticket->context, ticket->exchange) && !has_left(ticket))
            app_log(aTHX_ NULL, ORIBI_LOG_ERROR, "%s", what);
        oribi_abandon(ticket->lane, ticket->exchange);
        socket_forget(ticket->context, ticket->exchange);
        finish_environment(aTHX_ ticket);
    }
    ticket_ignore(aTHX_ ticket);
    SvREFCNT_dec(ticket->environment);
    ticket_drop_head(ticket);
    Safefree(ticket);
}

static int ticket_free(pTHX_ SV *holder, MAGIC *magic) {
    Ticket *ticket = (Ticket *)magic->mg_ptr;
    if (ticket && ticket->writer == holder)
        ticket->writer = NULL;
    if (ticket)
        ticket_release(aTHX_ ticket);
    magic->mg_ptr = NULL;
    return 0;
}

#ifdef USE_ITHREADS
/* A thread that the app starts gets copies without effect, because a lane belongs to its own thread. */
static int ticket_dup(pTHX_ MAGIC *magic, CLONE_PARAMS *parameters) {
    PERL_UNUSED_CONTEXT;
    UNUSED_ARGUMENT(parameters);
    magic->mg_ptr = NULL;
    return 0;
}
#endif

const MGVTBL ticket_magic = {
    .svt_free = ticket_free,
#ifdef USE_ITHREADS
    .svt_dup = ticket_dup,
#endif
};

void ticket_attach(pTHX_ Ticket *ticket, SV *holder) {
    MAGIC *magic = sv_magicext(holder, NULL, PERL_MAGIC_ext, &ticket_magic, (const char *)ticket, 0);
    magic->mg_flags |= MGf_DUP;
    ticket->references++;
}

Ticket *ticket_of(pTHX_ SV *holder) {
    MAGIC *magic = SvTYPE(holder) >= SVt_PVMG ? mg_findext(holder, PERL_MAGIC_ext, &ticket_magic) : NULL;
    Ticket *ticket = magic ? (Ticket *)magic->mg_ptr : NULL;
    if (!ticket)
        croak("this is not a responder or writer of this thread");
    if (ticket->forks != forks_count())
        croak("a response can only be given by the process that received the request");
    return ticket;
}

Ticket *ticket_new(Context *context) {
    Ticket *ticket;
    Newxz(ticket, 1, Ticket);
    ticket->context = context;
    ticket->lane = context->lane;
    ticket->exchange = context->exchange;
    ticket->forks = context->forks;
    ticket->head_only = context->head_only;
    return ticket;
}

void ticket_observe(Ticket *ticket) {
    Context *context = ticket->context;
    if (ticket_observes(ticket))
        return;
    ticket->after = context->observers;
    if (ticket->after)
        ticket->after->before = ticket;
    context->observers = ticket;
}

void ticket_ignore(pTHX_ Ticket *ticket) {
    SV *dropped[] = {ticket->on_room, ticket->on_gone, ticket->kept};
    if (!ticket_observes(ticket))
        return;
    if (ticket->before)
        ticket->before->after = ticket->after;
    else
        ticket->context->observers = ticket->after;
    if (ticket->after)
        ticket->after->before = ticket->before;
    ticket->before = ticket->after = NULL;
    ticket->on_room = ticket->on_gone = ticket->kept = NULL;
    ticket_want(ticket, FALSE);
    /* Mortal: the callback that is being called may hold the last reference to the writer. */
    for (size_t i = 0; i < C_ARRAY_LENGTH(dropped); i++)
        sv_2mortal(dropped[i]);
}

void ticket_finish(pTHX_ Ticket *ticket) {
    socket_forget(ticket->context, ticket->exchange);
    ticket->state = TICKET_OVER;
    ticket_ignore(aTHX_ ticket);
    finish_environment(aTHX_ ticket);
}
