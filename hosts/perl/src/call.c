/* call.c - answers an exchange: from the request to the app and back.
 *
 * No Perl code may leave these functions by a longjmp, because they are called from Rust. G_EVAL catches `die` at each call; a
 * JMPENV of our own catches `exit`, which unwinds the whole interpreter.
 */
#include "perl_host.h"

/* ---- The error log ------------------------------------------------------------------------------------------------------ */

/* "GET /path: ", or nothing. The path is that of the target as sent, without its query, which may contain secrets. */
SV *call_log_line(pTHX_ HV *environment) {
    SV *line = sv_2mortal(newSVpvs(""));
    SV **method = NULL, **target = NULL;
    if (environment && !SvRMAGICAL(environment) && hv_exists(environment, "REQUEST_METHOD", 14)
        && hv_exists(environment, "REQUEST_URI", 11)) {
        method = hv_fetchs(environment, "REQUEST_METHOD", 0);
        target = hv_fetchs(environment, "REQUEST_URI", 0);
    }
    if (method && target && SvPOK(*method) && SvPOK(*target)) {
        const char *path = SvPVX_const(*target);
        const char *query = (const char *)memchr(path, '?', SvCUR(*target));
        sv_catpvf(line, "%s %.*s: ", SvPVX_const(*method), (int)(query ? (STRLEN)(query - path) : SvCUR(*target)), path);
    }
    return line;
}

void call_log(pTHX_ HV *environment, oribi_log_level level, const char *format, ...) {
    SV *line;
    va_list arguments;
    ENTER;
    SAVETMPS;
    line = call_log_line(aTHX_ environment);
    va_start(arguments, format);
    sv_vcatpvf(line, format, &arguments);
    va_end(arguments);
    oribi_log(level, SvPVX_const(line), SvCUR(line));
    FREETMPS;
    LEAVE;
}

void call_log_error(pTHX_ HV *environment, const char *what) {
    SV *line, *error;
    oribi_bytes text = {"", 0};
    ENTER;
    SAVETMPS;
    line = call_log_line(aTHX_ environment);
    error = sv_mortalcopy_flags(ERRSV, SV_NOSTEAL);
    /* The log takes bytes: strings with wide characters are written as UTF-8. */
    if (SvPOK(error) && !SvROK(error)) {
        text.data = SvPVX_const(error);
        text.size = SvCUR(error);
    } else if (text_bytes(aTHX_ error, &text) != TEXT_OK) {
        text.data = text_describe(aTHX_ error);
        text.size = strlen(text.data);
    }
    while (text.size > 0 && (text.data[text.size - 1] == '\n' || text.data[text.size - 1] == ' '))
        text.size--;
    sv_catpvf(line, "%s: ", what);
    sv_catpvn(line, text.data, text.size);
    oribi_log(ORIBI_LOG_ERROR, SvPVX_const(line), SvCUR(line));
    /* An exception object must not outlive the request. */
    CLEAR_ERRSV();
    FREETMPS;
    LEAVE;
}

/* ---- Protected calls ---------------------------------------------------------------------------------------------------- */

static inline bool has_died(pTHX) {
    SV *error = ERRSV;
    return SvROK(error) || (SvPOK(error) && SvCUR(error) > 0);
}

/* Ends a process that code of the app has forked and left, as perl ends a program: with the message of an uncaught exception,
 * and the status of `die`. */
static void end_child(pTHX) __attribute__((noreturn));

static void end_child(pTHX) {
    int status = errno & 255;
    SV *error;
    oribi_bytes text = {"", 0};
    if (!has_died(aTHX))
        process_end_stray(aTHX_ 0);
    if (status == 0)
        status = (STATUS_UNIX >> 8) & 255;
    if (status == 0)
        status = 255;
    error = sv_mortalcopy_flags(ERRSV, SV_NOSTEAL);
    switch (text_bytes(aTHX_ error, &text)) {
    case TEXT_WIDE:
        text.data = SvPVutf8(error, text.size);
        break;
    case TEXT_DIED:
        text.data = text_describe(aTHX_ error);
        text.size = strlen(text.data);
        break;
    default:
        break;
    }
    PerlIO_write(Perl_error_log, text.data, text.size);
    PerlIO_flush(Perl_error_log);
    process_end_stray(aTHX_ status);
}

/* Calls `code`, or the argument's method of this name. The call runs on a Perl stack of its own: `last`, `next` and `goto`
 * search for their loop only on that stack, so they cannot leave for a loop of the program that started the server. */
static SV *call_fenced(pTHX_ SV *code, const char *method, SV *argument) {
    dSP;
    SV *result;
    const unsigned forks = process_forks();
    PUSHSTACKi(PERLSI_REQUIRE);
    PUSHMARK(SP);
    if (argument)
        XPUSHs(argument);
    PUTBACK;
    if (method)
        call_method(method, G_SCALAR | G_EVAL);
    else
        call_sv(code, G_SCALAR | G_EVAL);
    SPAGAIN;
    result = POPs;
    PUTBACK;
    POPSTACK;
    if (UNLIKELY(forks != process_forks()))
        end_child(aTHX);
    return UNLIKELY(has_died(aTHX)) ? NULL : result;
}

SV *call_protected(pTHX_ SV *code, SV *argument) {
    return call_fenced(aTHX_ code, NULL, argument);
}

SV *call_method_protected(pTHX_ SV *object, const char *method) {
    return call_fenced(aTHX_ NULL, method, object);
}

/* ---- Answering ---------------------------------------------------------------------------------------------------------- */

/* Whether a value is true; never calls an object, because that might run code that dies. */
static bool is_true(pTHX_ SV *value) {
    return value && (SvROK(value) || (SvOK(value) && !SvGMAGICAL(value) && SvTRUE_nomg(value)));
}

/* The handlers in psgix.cleanup.handlers; NULL if there are none. */
static AV *cleanup_handlers(pTHX_ Context *context, HV *environment) {
    SV *handlers = environment_value(aTHX_ &context->environment, environment, PSGIX_CLEANUP_HANDLERS);
    AV *list;
    if (!handlers || !SvROK(handlers) || SvTYPE(SvRV(handlers)) != SVt_PVAV)
        return NULL;
    list = (AV *)SvRV(handlers);
    return SvRMAGICAL(list) || AvFILLp(list) < 0 ? NULL : list;
}

bool call_has_cleanup(pTHX_ Context *context, HV *environment) {
    return cleanup_handlers(aTHX_ context, environment) != NULL;
}

static bool asks_for_end(pTHX_ Context *context, HV *environment) {
    return is_true(aTHX_ environment_value(aTHX_ &context->environment, environment, PSGIX_HARAKIRI_COMMIT));
}

void call_before_response(pTHX_ Context *context, HV *environment) {
    if (asks_for_end(aTHX_ context, environment)) {
        context->retiring = TRUE;
        oribi_retire(context->lane);
    }
}

/* The same, unless the app has obviously added nothing. */
static inline void before_response(pTHX_ Context *context, HV *environment) {
    if (UNLIKELY(!context->environment.rememberable || HvTOTALKEYS(environment) != context->environment.slot_count))
        call_before_response(aTHX_ context, environment);
}

void call_finished(pTHX_ Context *context, HV *environment) {
    if (asks_for_end(aTHX_ context, environment))
        context->retiring = TRUE;
    if (cleanup_handlers(aTHX_ context, environment)) {
        if (!context->deferred)
            context->deferred = newAV();
        av_push(context->deferred, newRV_inc((SV *)environment));
    }
}

/* The next step of the server. The context ends only after the cleanup, and requests its end only once, because a worker
 * still answers the requests that it has accepted. */
static uint32_t next_step(pTHX_ Context *context) {
    /* A destructor has forked, and its child has also returned. */
    if (UNLIKELY(context->forks != process_forks()))
        process_end_stray(aTHX_ 0);
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
                    call_log(aTHX_ environment, ORIBI_LOG_ERROR, "%s", wrong);
                return TRUE;
            }
        } else if (SvTYPE(thing) == SVt_PVCV) {
            return stream_answer(aTHX_ context, response, environment);
        }
    }
    oribi_abandon(target.lane, target.exchange);
    /* An app that has used the socket itself need not return anything. */
    if (!socket_is_taken(context, context->exchange))
        call_log(aTHX_ environment, ORIBI_LOG_ERROR,
                 "the app must return an array reference of 3 elements or a code reference, not %s",
                 text_describe(aTHX_ response));
    return TRUE;
}

static uint32_t answer(pTHX_ Context *context, const oribi_request *request) {
    HV *environment;
    SV *response;
    bool answered = TRUE;
    ENTER;
    SAVETMPS;
    environment = environment_fill(aTHX_ context, request);
    interruption_begin(aTHX_ context, environment);
    response = call_protected(aTHX_ context->app, environment_argument(aTHX_ &context->environment, environment));
    before_response(aTHX_ context, environment);
    if (LIKELY(response != NULL)) {
        answered = send_response(aTHX_ context, response, environment);
    } else {
        socket_give_up(aTHX_ context, context->lane, context->exchange);
        call_log_error(aTHX_ environment, "the app died");
    }
    FREETMPS;
    LEAVE;
    if (answered)
        socket_forget(context, context->exchange);
    if (UNLIKELY(!environment_return_untouched(aTHX_ context, environment))) {
        if (answered)
            call_finished(aTHX_ context, environment);
        environment_return(aTHX_ context, environment);
    }
    interruption_end(context);
    return next_step(aTHX_ context);
}

/* Handles a call of exit by the app: all frames in the interpreter have been unwound, including those of the program that
 * started the server. The interpreter still works, and answers the requests that the worker has accepted until another worker
 * takes over. */
static uint32_t exited(pTHX_ Context *context, I32 scope, bool answering) {
    if (context->forks != process_forks())
        process_end_stray(aTHX_ STATUS_EXIT);
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
    call_log(aTHX_ NULL, ORIBI_LOG_ERROR, "the app called exit(%d); its interpreter is replaced", (int)STATUS_EXIT);
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
            if (!call_protected(aTHX_ handler, reference))
                call_log_error(aTHX_ environment, "a cleanup handler died");
        }
        if (asks_for_end(aTHX_ context, environment))
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
        call_log_error(aTHX_ NULL, "a signal handler died");
    FREETMPS;
    LEAVE;
    return next_step(aTHX_ context);
}

/* Runs `work` between two requests; the app may call exit in it. */
static uint32_t between_requests(Context *context, uint32_t (*work)(pTHX_ Context *context)) {
    dCONTEXT_PERL(context);
    const I32 scope = PL_scopestack_ix;
    uint32_t next;
    int jump;
    dJMPENV;
    JMPENV_PUSH(jump);
    if (jump == 0)
        next = work(aTHX_ context);
    else
        next = exited(aTHX_ context, scope, FALSE);
    JMPENV_POP;
    return next;
}

uint32_t call_run_deferred(void *context) {
    return between_requests((Context *)context, run_deferred);
}

uint32_t call_attend(void *context) {
    return between_requests((Context *)context, attend);
}
