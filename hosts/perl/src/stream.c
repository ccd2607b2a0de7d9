/* stream.c - responses that the app gives by calls: responders and writers.
 *
 * Responders and writers may be called at any later time, or be dropped without a call. Each refers to a Ticket by magic: see
 * ticket.c.
 */
#include "perl_host.h"

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

/* Whether the app is in its call for the request of a ticket. */
static bool is_called(const Ticket *ticket) {
    return ticket->context->answering && ticket->context->exchange == ticket->exchange;
}

/* Sends a piece of content. A callback of an event loop must not wait for the client. An app that writes everything in its call
 * for the request must, because otherwise it would fill the memory. */
static oribi_result send_piece(const Ticket *ticket, oribi_bytes piece) {
    if (ticket->context->looping && (ticket->on_room || !is_called(ticket)))
        return oribi_offer(ticket->lane, ticket->exchange, piece.data, piece.size);
    return oribi_write(ticket->lane, ticket->exchange, piece.data, piece.size);
}

bool stream_answer(pTHX_ Context *context, SV *code, HV *environment) {
    Ticket *ticket = ticket_new(context);
    CV *responder = newXS(NULL, stream_respond, __FILE__);
    bool died, late;
    ticket->references = 1;
    ticket_attach(aTHX_ ticket, (SV *)responder);
    if (context->looping)
        observing_begin(aTHX_ context, ticket);
    {
        SV *reference = newRV_noinc((SV *)responder);
        ENTER;
        SAVETMPS;
        died = !protected_call(aTHX_ code, reference);
        FREETMPS;
        LEAVE;
        SvREFCNT_dec_NN(reference);
    }
    context->begun = NULL;
    if (died) {
        if (ticket->state != TICKET_OVER)
            socket_give_up(aTHX_ ticket->context, ticket->lane, ticket->exchange);
        ticket_finish(aTHX_ ticket);
        app_log_error(aTHX_ environment, "the app died");
    }
    late = ticket->state != TICKET_OVER && ticket->references > 1;
    if (late) {
        /* The callback has returned without an error, and without content so far: the client gets the head. */
        if (ticket->head
            && (ticket_start(aTHX_ ticket) != ORIBI_OK || send_piece(ticket, (oribi_bytes){NULL, 0}) == ORIBI_GONE))
            ticket->state = TICKET_GONE;
        ticket->environment = newRV_inc((SV *)environment);
        /* If it has no handlers yet, only the app keeps the environment alive: the environment may well contain the
         * responder.
         */
        if (!cleanup_handlers(aTHX_ context, environment))
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
    ticket->writer = writer;
    if (ticket->on_room)
        ticket_want(ticket, TRUE);
    return sv_bless(reference, gv_stashpvs("Oribi::Writer", GV_ADD));
}

/* ---- The responder ------------------------------------------------------------------------------------------------------ */

XS(stream_respond) {
    dXSARGS;
    Ticket *ticket = ticket_of(aTHX_ (SV *)cv);
    const char *wrong;
    AV *response;
    SSize_t count;
    ticket_hold(aTHX_ (SV *)cv);
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
        cleanup_before_response(aTHX_ ticket->context, ticket_environment(ticket));
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
        ticket_hold(aTHX_ writer);
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
        result = send_piece(ticket, bytes);
    ticket_want(ticket, ticket->on_room != NULL);
    if (UNLIKELY(result == ORIBI_WOKEN))
        ticket_hold(aTHX_ writer);
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
        ticket_want(ticket, ticket_observes(ticket));
        XSRETURN_NO;
    }
    if (result != ORIBI_OK) {
        ticket_finish(aTHX_ ticket);
        croak("%s", oribi_last_error());
    }
    XSRETURN_YES;
}

/* Begins the response before there is content for it. */
XS(stream_flush) {
    dXSARGS;
    Ticket *ticket;
    if (items != 1 || !SvROK(ST(0)))
        croak("usage: $writer->flush");
    ticket = ticket_of(aTHX_ SvRV(ST(0)));
    if (ticket->state != TICKET_STREAMING || !ticket->head)
        XSRETURN_EMPTY;
    if (ticket_start(aTHX_ ticket) != ORIBI_OK || send_piece(ticket, (oribi_bytes){NULL, 0}) == ORIBI_GONE)
        ticket->state = TICKET_GONE;
    XSRETURN_EMPTY;
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
        ticket_hold(aTHX_ SvRV(ST(0)));
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
