/* call.c - answers an exchange: from the request to the app and back.
 *
 * No Perl code may leave the functions that the server calls by a longjmp, because Rust code calls them. Protected calls
 * (protected.c) catch `die`; a JMPENV of this file catches `exit`, which unwinds the whole interpreter.
 */
#include "perl_host.h"

/* Calls cleanup_before_response(), unless the app has obviously added nothing to the environment. */
static inline void before_response(pTHX_ Context *context, HV *environment) {
    if (UNLIKELY(!context->environment.rememberable || HvTOTALKEYS(environment) != context->environment.slot_count))
        cleanup_before_response(aTHX_ context, environment);
}

/* Returns the flags that tell the server what to do next. The replacement of the context (ORIBI_AFTER_RETIRE) is requested only
 * when no cleanup is left, and only once, because a worker still answers the requests that it has accepted. */
static uint32_t next_step(pTHX_ Context *context) {
    /* A destructor has forked, and this is the child, which has returned from the destructor, too. */
    if (UNLIKELY(context->forks != forks_count()))
        forks_end_stray(aTHX_ 0);
    if (UNLIKELY(context->deferred && AvFILLp(context->deferred) >= 0))
        return ORIBI_AFTER_DEFERRED;
    if (LIKELY(!context->retiring))
        return 0;
    context->retiring = FALSE;
    return ORIBI_AFTER_RETIRE;
}

/* Passes the app's return value to the server. FALSE if the answer will be given later. */
static bool send_response(pTHX_ Context *context, SV *response, HV *environment) {
    const Target target = {context->lane, context->exchange, environment, context->head_only, context};
    const char *wrong = NULL;
    if (LIKELY(SvROK(response))) {
        SV *thing = SvRV(response);
        if (LIKELY(SvTYPE(thing) == SVt_PVAV)) {
            AV *array = response_settle(aTHX_ (AV *)thing);
            if (LIKELY(AvFILLp(array) == 2)) {
                wrong = response_send(aTHX_ &target, array);
                if (UNLIKELY(wrong != NULL))
                    app_log(aTHX_ environment, ORIBI_LOG_ERROR, "%s", wrong);
                return TRUE;
            }
        } else if (SvTYPE(thing) == SVt_PVCV) {
            return stream_answer(aTHX_ context, response, environment);
        }
    }
    if (context->opened == context->exchange + 1) {
        /* The connection stays open, and its client gets no response. */
        oribi_respond(target.lane, target.exchange, 200, NULL, 0, NULL, 0);
        return TRUE;
    }
    oribi_abandon(target.lane, target.exchange);
    /* An app that has used the socket itself need not return anything. */
    if (!socket_is_taken(context, context->exchange))
        app_log(aTHX_ environment, ORIBI_LOG_ERROR,
                "the app must return an array reference of 3 elements or a code reference, not %s",
                text_describe(aTHX_ response));
    return TRUE;
}

/* The function that handles the request, if it is an event of a connection that an edge keeps open; else the app. */
static SV *handler_of(pTHX_ Context *context) {
    if (LIKELY(!context->environment.is_event))
        return context->app;
    context->environment.is_event = FALSE;
    return (SV *)get_cv("Oribi::Live::event", 0);
}

static uint32_t answer(pTHX_ Context *context, const oribi_request *request) {
    HV *environment;
    SV *response;
    bool answered = TRUE;
    ENTER;
    SAVETMPS;
    environment = environment_fill(aTHX_ context, request);
    interruption_begin(aTHX_ context, environment);
    response = protected_call(aTHX_ handler_of(aTHX_ context), environment_argument(aTHX_ &context->environment, environment));
    before_response(aTHX_ context, environment);
    if (LIKELY(response != NULL)) {
        answered = send_response(aTHX_ context, response, environment);
    } else {
        socket_give_up(aTHX_ context, context->lane, context->exchange);
        app_log_error(aTHX_ environment, "the app died");
    }
    FREETMPS;
    LEAVE;
    if (answered)
        socket_forget(context, context->exchange);
    if (UNLIKELY(!environment_return_untouched(aTHX_ context, environment))) {
        if (answered)
            cleanup_finished(aTHX_ context, environment);
        environment_return(aTHX_ context, environment);
    }
    interruption_end(context);
    return next_step(aTHX_ context);
}

/* Handles a call of exit by the app: all frames in the interpreter have been unwound, including those of the program that
 * started the server. The interpreter still works: it answers the requests that the worker has accepted, until the server
 * replaces it. */
static uint32_t exited(pTHX_ Context *context, I32 scope, bool answering) {
    if (context->forks != forks_count())
        forks_end_stray(aTHX_ STATUS_EXIT);
    while (PL_scopestack_ix > scope)
        LEAVE;
    FREETMPS;
    PL_stack_sp = PL_stack_base;
    /* The environment may be half filled. */
    environment_forget(&context->environment);
    interruption_end(context);
    oribi_retire(context->lane);
    if (answering) {
        socket_give_up(aTHX_ context, context->lane, context->exchange);
        socket_forget(context, context->exchange);
    }
    app_log(aTHX_ NULL, ORIBI_LOG_ERROR, "the app called exit(%d); its interpreter is replaced", (int)STATUS_EXIT);
    context->retiring = TRUE;
    return next_step(aTHX_ context);
}

static bool is_head(const oribi_bytes *method) {
    return method->size == 4 && memEQ(method->data, "HEAD", 4);
}

uint32_t call_answer(void *pointer, oribi_lane *lane, oribi_exchange exchange, const oribi_request *request) {
    Context *context = (Context *)pointer;
    dCONTEXT_PERL(context);
    const I32 scope = PL_scopestack_ix;
    uint32_t next;
    int jump;
    dJMPENV;
    context->lane = lane;
    context->exchange = exchange;
    context->head_only = is_head(&request->variables[ORIBI_REQUEST_METHOD].value);
    JMPENV_PUSH(jump);
    if (LIKELY(jump == 0))
        next = answer(aTHX_ context, request);
    else
        next = exited(aTHX_ context, scope, TRUE);
    JMPENV_POP;
    return next;
}

static uint32_t run_deferred(pTHX_ Context *context) {
    AV *list = context->deferred;
    context->deferred = NULL;
    while (list && av_len(list) >= 0) {
        SV *reference;
        AV *handlers;
        HV *environment;
        ENTER;
        SAVETMPS;
        reference = sv_2mortal(av_shift(list));
        environment = (HV *)SvRV(reference);
        /* A handler may register another one. */
        while ((handlers = cleanup_handlers(aTHX_ context, environment)) != NULL) {
            SV *handler = sv_2mortal(av_shift(handlers));
            if (!protected_call(aTHX_ handler, reference))
                app_log_error(aTHX_ environment, "a cleanup handler died");
        }
        if (cleanup_asks_for_end(aTHX_ context, environment))
            context->retiring = TRUE;
        FREETMPS;
        LEAVE;
    }
    SvREFCNT_dec(list);
    return next_step(aTHX_ context);
}

static uint32_t attend(pTHX_ Context *context) {
    ENTER;
    SAVETMPS;
    while (!signals_dispatch(aTHX))
        app_log_error(aTHX_ NULL, "a signal handler died");
    FREETMPS;
    LEAVE;
    if (context->observers)
        observing_call(aTHX_ context);
    return next_step(aTHX_ context);
}

/* The arguments of call_run_loop(). */
typedef struct {
    int descriptor;
    int64_t milliseconds;
} Round;

/* Runs the event loop if `round` is not NULL, and then `work`, between two requests; the app may call exit in it. */
static uint32_t between_requests(Context *context, uint32_t (*work)(pTHX_ Context *context), const Round *round) {
    dCONTEXT_PERL(context);
    const I32 scope = PL_scopestack_ix;
    uint32_t next;
    int jump;
    dJMPENV;
    JMPENV_PUSH(jump);
    if (jump == 0) {
        if (round)
            loop_run(aTHX_ context, round->descriptor, round->milliseconds);
        next = work(aTHX_ context);
    } else {
        next = exited(aTHX_ context, scope, FALSE);
    }
    JMPENV_POP;
    return next;
}

uint32_t call_run_deferred(void *context) {
    return between_requests((Context *)context, run_deferred, NULL);
}

uint32_t call_attend(void *context) {
    return between_requests((Context *)context, attend, NULL);
}

uint32_t call_run_loop(void *context, int descriptor, int64_t milliseconds) {
    const Round round = {descriptor, milliseconds};
    return between_requests((Context *)context, next_step, &round);
}
