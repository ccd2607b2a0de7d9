/* stream.c - responses that the app gives by calls: responders, writers, informational responses.
 *
 * They may be called at any later time, or be dropped. Each refers to a Ticket by magic. Releasing the ticket ensures that no
 * client waits for ever and that no truncated response looks complete.
 */
#include "perl_host.h"

/* A copy of a head, because the app may change or free the values to which its fields point. */
struct KeptHead {
    uint16_t status;
    size_t field_count;
    oribi_field fields[];
};

static oribi_bytes keep_bytes(oribi_bytes from, char **room) {
    oribi_bytes to = {*room, from.size};
    Copy(from.data, *room, from.size, char);
    *room += from.size;
    return to;
}

static struct KeptHead *head_keep(const Head *head) {
    const size_t front = sizeof(struct KeptHead) + head->field_count * sizeof(oribi_field);
    struct KeptHead *kept;
    size_t size = 0;
    char *room;
    for (size_t i = 0; i < head->field_count; i++)
        size += head->fields[i].name.size + head->fields[i].value.size;
    Newx(room, front + size, char);
    kept = (struct KeptHead *)room;
    room += front;
    kept->status = head->status;
    kept->field_count = head->field_count;
    for (size_t i = 0; i < head->field_count; i++) {
        kept->fields[i].name = keep_bytes(head->fields[i].name, &room);
        kept->fields[i].value = keep_bytes(head->fields[i].value, &room);
    }
    return kept;
}

static void ticket_drop_head(Ticket *ticket) {
    struct KeptHead *head = ticket->head;
    ticket->head = NULL;
    Safefree(head);
}

/* The environment of its request, if that still exists. */
static HV *ticket_environment(const Ticket *ticket) {
    const Context *context = ticket->context;
    if (ticket->environment)
        return SvROK(ticket->environment) ? (HV *)SvRV(ticket->environment) : NULL;
    return context->answering && context->exchange == ticket->exchange ? context->present : NULL;
}

/* Begins the response if nothing of it has been sent yet. */
static oribi_result ticket_start(pTHX_ Ticket *ticket) {
    const struct KeptHead *head = ticket->head;
    oribi_result result = ORIBI_GONE;
    if (!head)
        return ORIBI_OK;
    if (UNLIKELY(socket_is_used(aTHX_ ticket->context, ticket->exchange)))
        socket_drop(aTHX_ ticket->context, ticket->exchange, ticket_environment(ticket), "its answer");
    else
        result = oribi_start(ticket->lane, ticket->exchange, head->status, head->fields, head->field_count);
    ticket_drop_head(ticket);
    return result;
}

/* The request of a late response is over: nothing else handles the cleanup of its environment. */
static void finish_environment(pTHX_ Ticket *ticket) {
    SV *environment = ticket->environment;
    ticket->environment = NULL;
    if (environment) {
        if (SvROK(environment) && SvTYPE(SvRV(environment)) == SVt_PVHV)
            call_finished(aTHX_ ticket->context, (HV *)SvRV(environment));
        SvREFCNT_dec_NN(environment);
    }
}

static void ticket_release(pTHX_ Ticket *ticket) {
    if (--ticket->references > 0)
        return;
    if (ticket->state != TICKET_OVER && !ticket->context->closing && ticket->forks == process_forks()) {
        const char *what = ticket->state == TICKET_WAITING ? "the app dropped the responder without calling it"
                                                           : "the app dropped the writer without closing it";
        if (ticket->state != TICKET_GONE && !socket_is_taken(ticket->context, ticket->exchange))
            call_log(aTHX_ NULL, ORIBI_LOG_ERROR, "%s", what);
        oribi_abandon(ticket->lane, ticket->exchange);
        socket_forget(ticket->context, ticket->exchange);
        finish_environment(aTHX_ ticket);
    }
    SvREFCNT_dec(ticket->environment);
    ticket_drop_head(ticket);
    Safefree(ticket);
}

static int ticket_free(pTHX_ SV *holder, MAGIC *magic) {
    UNUSED_ARGUMENT(holder);
    if (magic->mg_ptr)
        ticket_release(aTHX_ (Ticket *)magic->mg_ptr);
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

static const MGVTBL ticket_magic = {
    .svt_free = ticket_free,
#ifdef USE_ITHREADS
    .svt_dup = ticket_dup,
#endif
};

static void ticket_attach(pTHX_ Ticket *ticket, SV *holder) {
    MAGIC *magic = sv_magicext(holder, NULL, PERL_MAGIC_ext, &ticket_magic, (const char *)ticket, 0);
    magic->mg_flags |= MGf_DUP;
    ticket->references++;
}

static Ticket *ticket_of(pTHX_ SV *holder) {
    MAGIC *magic = SvTYPE(holder) >= SVt_PVMG ? mg_findext(holder, PERL_MAGIC_ext, &ticket_magic) : NULL;
    Ticket *ticket = magic ? (Ticket *)magic->mg_ptr : NULL;
    if (!ticket)
        croak("this is no responder or writer of this thread");
    if (ticket->forks != process_forks())
        croak("a response can only be given by the process that received the request");
    return ticket;
}

/* Keeps a value alive until the end of the caller's statement, because code that runs meanwhile may drop the last reference. */
static void hold(pTHX_ SV *value) {
    sv_2mortal(SvREFCNT_inc_simple_NN(value));
}

static Ticket *ticket_new(Context *context) {
    Ticket *ticket;
    Newxz(ticket, 1, Ticket);
    ticket->context = context;
    ticket->lane = context->lane;
    ticket->exchange = context->exchange;
    ticket->forks = context->forks;
    ticket->head_only = context->head_only;
    return ticket;
}

/* Marks the response as complete. */
static void ticket_finish(pTHX_ Ticket *ticket) {
    socket_forget(ticket->context, ticket->exchange);
    ticket->state = TICKET_OVER;
    finish_environment(aTHX_ ticket);
}

bool stream_answer(pTHX_ Context *context, SV *code, HV *environment) {
    Ticket *ticket = ticket_new(context);
    CV *responder = newXS(NULL, stream_respond, __FILE__);
    bool died, late;
    ticket->references = 1;
    ticket_attach(aTHX_ ticket, (SV *)responder);
    {
        SV *reference = newRV_noinc((SV *)responder);
        ENTER;
        SAVETMPS;
        died = !call_protected(aTHX_ code, reference);
        FREETMPS;
        LEAVE;
        SvREFCNT_dec_NN(reference);
    }
    if (died) {
        if (ticket->state != TICKET_OVER)
            socket_give_up(aTHX_ ticket->context, ticket->lane, ticket->exchange);
        ticket_finish(aTHX_ ticket);
        call_log_error(aTHX_ environment, "the app died");
    }
    late = ticket->state != TICKET_OVER && ticket->references > 1;
    if (late) {
        /* The callback has returned without an error, and without content so far: the client gets the head. */
        if (ticket->head && (ticket_start(aTHX_ ticket) != ORIBI_OK
                             || oribi_write(ticket->lane, ticket->exchange, NULL, 0) == ORIBI_GONE))
            ticket->state = TICKET_GONE;
        ticket->environment = newRV_inc((SV *)environment);
        /* If it has no handlers yet, only the app keeps the environment alive: the environment may well contain the
         * responder.
         */
        if (!call_has_cleanup(aTHX_ context, environment))
            sv_rvweaken(ticket->environment);
    }
    ticket_release(aTHX_ ticket);
    return !late;
}

/* A mortal writer for the content after the head. */
static SV *writer_new(pTHX_ Ticket *ticket) {
    SV *writer = newSV(0);
    SV *reference = sv_2mortal(newRV_noinc(writer));
    ticket_attach(aTHX_ ticket, writer);
    return sv_bless(reference, gv_stashpvs("Oribi::Writer", GV_ADD));
}

/* ---- The responder ------------------------------------------------------------------------------------------------------ */

XS(stream_respond) {
    dXSARGS;
    Ticket *ticket = ticket_of(aTHX_ (SV *)cv);
    const char *wrong;
    AV *response;
    SSize_t count;
    hold(aTHX_ (SV *)cv);
    if (ticket->state != TICKET_WAITING)
        croak("the responder was called twice");
    if (items != 1 || !SvROK(ST(0)) || SvTYPE(SvRV(ST(0))) != SVt_PVAV)
        croak("the responder must be called with an array reference of 2 or 3 elements, not %s",
              items < 1 ? "nothing" : text_describe(aTHX_ ST(0)));
    response = response_settle(aTHX_ (AV *)SvRV(ST(0)));
    count = AvFILLp(response) + 1;
    if (ticket->state != TICKET_WAITING)
        croak("the responder was called twice");
    if (count == 2 && UNLIKELY(socket_is_used(aTHX_ ticket->context, ticket->exchange))) {
        socket_drop(aTHX_ ticket->context, ticket->exchange, ticket_environment(ticket), "its answer");
        ticket->state = TICKET_GONE;
        ST(0) = writer_new(aTHX_ ticket);
        XSRETURN(1);
    }
    if (ticket_environment(ticket))
        call_before_response(aTHX_ ticket->context, ticket_environment(ticket));
    if (count == 3) {
        const Target target = {ticket->lane, ticket->exchange, ticket_environment(ticket), ticket->head_only, ticket->context};
        ticket->state = TICKET_OVER;
        wrong = response_send(aTHX_ &target, response);
        ticket_finish(aTHX_ ticket);
        if (wrong)
            croak("%s", wrong);
        XSRETURN_EMPTY;
    }
    if (count != 2)
        croak("the responder must be called with an array reference of 2 or 3 elements, not %s", text_describe(aTHX_ ST(0)));
    {
        Head head;
        oribi_result result = ORIBI_OK;
        wrong = response_head(aTHX_ response, &head);
        if (ticket->state != TICKET_WAITING)
            croak("the responder was called twice");
        if (!wrong) {
            const Target target = {ticket->lane, ticket->exchange, NULL, ticket->head_only, ticket->context};
            result = response_has_no_content(&target, head.status)
                         ? oribi_start(ticket->lane, ticket->exchange, head.status, head.fields, head.field_count)
                         : oribi_check(ticket->lane, head.status, head.fields, head.field_count);
            wrong = response_failure(aTHX_ result);
            /* The response begins with the first piece: if the app dies before, its client gets a 500. */
            if (result == ORIBI_OK && !response_has_no_content(&target, head.status))
                ticket->head = head_keep(&head);
        }
        if (wrong) {
            socket_give_up(aTHX_ ticket->context, ticket->lane, ticket->exchange);
            ticket_finish(aTHX_ ticket);
            croak("%s", wrong);
        }
        ticket->state = result == ORIBI_GONE ? TICKET_GONE : TICKET_STREAMING;
        ST(0) = writer_new(aTHX_ ticket);
        XSRETURN(1);
    }
}

/* ---- The writer --------------------------------------------------------------------------------------------------------- */

XS(stream_write) {
    dXSARGS;
    Ticket *ticket;
    SV *writer;
    oribi_bytes bytes = {"", 0};
    TextResult text;
    oribi_result result = ORIBI_OK;
    if (items != 2 || !SvROK(ST(0)))
        croak("usage: $writer->write($bytes)");
    writer = SvRV(ST(0));
    if (UNLIKELY(!text_is_quiet(ST(1))))
        hold(aTHX_ writer);
    /* Overloading may close the writer, so the ticket is looked up afterwards. */
    text = text_bytes(aTHX_ ST(1), &bytes);
    ticket = ticket_of(aTHX_ writer);
    if (ticket->state == TICKET_GONE)
        XSRETURN_NO;
    if (ticket->state != TICKET_STREAMING)
        croak("the writer has been closed");
    switch (text) {
    case TEXT_OK:
        break;
    case TEXT_UNDEFINED:
        XSRETURN_YES;
    case TEXT_WIDE:
        croak("Wide character in write: it must be encoded into bytes");
    case TEXT_DIED:
        croak_sv(ERRSV);
    }
    if (bytes.size > 0)
        result = ticket_start(aTHX_ ticket);
    if (bytes.size > 0 && result == ORIBI_OK)
        result = oribi_write(ticket->lane, ticket->exchange, bytes.data, bytes.size);
    if (UNLIKELY(result == ORIBI_WOKEN))
        hold(aTHX_ writer);
    while (UNLIKELY(result == ORIBI_WOKEN)) {
        /* A handler of the app may die, which ends this write, or close the writer. */
        PERL_ASYNC_CHECK();
        ticket = ticket_of(aTHX_ writer);
        if (ticket->state != TICKET_STREAMING)
            XSRETURN_NO;
        result = oribi_write(ticket->lane, ticket->exchange, NULL, 0);
    }
    if (result == ORIBI_GONE) {
        /* Without an error: an app that ignores the result continues, and nothing is sent. */
        ticket->state = TICKET_GONE;
        XSRETURN_NO;
    }
    if (result != ORIBI_OK) {
        ticket_finish(aTHX_ ticket);
        croak("%s", oribi_last_error());
    }
    XSRETURN_YES;
}

XS(stream_close) {
    dXSARGS;
    Ticket *ticket;
    Head trailers = {.field_count = 0};
    oribi_result result = ORIBI_OK;
    if (items < 1 || items > 2 || !SvROK(ST(0)))
        croak("usage: $writer->close, or $writer->close([@trailers])");
    if (items == 2 && SvOK(ST(1))) {
        const char *wrong;
        /* Overloading may close the writer, or drop it. */
        hold(aTHX_ SvRV(ST(0)));
        wrong = response_trailers(aTHX_ ST(1), &trailers);
        if (wrong)
            croak("%s", wrong);
    }
    ticket = ticket_of(aTHX_ SvRV(ST(0)));
    if (ticket->state == TICKET_OVER)
        XSRETURN_EMPTY;
    if (ticket->state == TICKET_STREAMING)
        result = ticket_start(aTHX_ ticket);
    if (ticket->state == TICKET_STREAMING && result == ORIBI_OK)
        result = trailers.field_count
                     ? oribi_finish_with_trailers(ticket->lane, ticket->exchange, trailers.fields, trailers.field_count)
                     : oribi_finish(ticket->lane, ticket->exchange);
    ticket_finish(aTHX_ ticket);
    if (result != ORIBI_OK && result != ORIBI_GONE)
        croak("%s", oribi_last_error());
    XSRETURN_EMPTY;
}

/* ---- psgix.informational ------------------------------------------------------------------------------------------------ */

SV *informational_new(pTHX_ Context *context) {
    Ticket *ticket = ticket_new(context);
    CV *code = newXS(NULL, informational_send, __FILE__);
    /* Dropping it owes nothing to the client. */
    ticket->state = TICKET_OVER;
    ticket_attach(aTHX_ ticket, (SV *)code);
    return newRV_noinc((SV *)code);
}

bool informational_is_private(SV *code) {
    return SvTYPE(code) == SVt_PVCV && SvREFCNT(code) == 1 && !SvOBJECT(code) && SvMAGIC(code)
           && SvMAGIC(code)->mg_virtual == &ticket_magic && !SvMAGIC(code)->mg_moremagic;
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
    hold(aTHX_ (SV *)cv);
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
