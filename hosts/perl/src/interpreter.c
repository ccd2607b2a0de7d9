/* interpreter.c - makes, enters and frees the interpreters that answer.
 *
 * If each lane has its own interpreter, that interpreter is a clone of the one in which the app was loaded. The latter, the
 * template, never answers a request in such a worker, so every clone starts from the same state. The server makes one clone at
 * a time.
 */
#include "perl_host.h"

static Context *context_new(pTHX) {
    SV *app = get_sv("Oribi::App", 0);
    Context *context;
    if (!app || !SvROK(app)) {
        static const char text[] = "there is no app in this interpreter: was $Oribi::App changed?";
        oribi_log(ORIBI_LOG_ERROR, text, sizeof text - 1);
        return NULL;
    }
    Newxz(context, 1, Context);
#ifdef MULTIPLICITY
    context->perl = my_perl;
#endif
    context->app = newSVsv(app);
    context->forks = forks_count();
    environment_prepare(aTHX_ &context->environment);
    interruption_prepare(aTHX_ context);
    oribi_note_interpreter(1);
    return context;
}

#ifdef USE_ITHREADS
static Context *clone_template(PerlInterpreter *template) {
    PerlInterpreter *before = (PerlInterpreter *)PERL_GET_CONTEXT;
    PerlInterpreter *my_perl;
    Context *context;
    PERL_SET_CONTEXT(template);
    /* CLONE subs run in here. If one of them dies, nothing catches the exception: it ends the worker, with the message of the
     * exception. */
    my_perl = perl_clone(template, 0);
    PERL_SET_CONTEXT(my_perl);
    /* END blocks belong to the process: they run in the template when the worker ends. */
    SvREFCNT_dec(PL_endav);
    PL_endav = NULL;
    /* Clones must not produce the same random numbers. */
    PL_srand_called = FALSE;
    PL_perl_destruct_level = 2;
    context = context_new(aTHX);
    if (context) {
        context->cloned = TRUE;
    } else {
        perl_destruct(my_perl);
        perl_free(my_perl);
    }
    PERL_SET_CONTEXT(before);
    return context;
}
#endif

void *interpreter_open(void *data, int own) {
    Server *server = (Server *)data;
#ifdef MULTIPLICITY
    PerlInterpreter *my_perl = server->perl;
#endif
    if (own) {
#ifdef USE_ITHREADS
        return clone_template(server->perl);
#else
        static const char text[] = "this perl is built without threads: use more workers instead";
        oribi_log(ORIBI_LOG_ERROR, text, sizeof text - 1);
        return NULL;
#endif
    }
    {
        Context *context = context_new(aTHX);
        if (context)
            context->looping = context->environment.nonblocking = server->looping;
        return context;
    }
}

void interpreter_enter(void *pointer) {
    Context *context = (Context *)pointer;
#ifdef USE_ITHREADS
    dCONTEXT_PERL(context);
    PERL_SET_CONTEXT(my_perl);
    if (context->cloned) {
#if PERL_VERSION >= 28
        thread_locale_init();
#endif
        alarms_enter();
    }
#else
    UNUSED_ARGUMENT(context);
#endif
}

void interpreter_begin(void *pointer, oribi_lane *lane) {
    Context *context = (Context *)pointer;
    context->lane = lane;
    /* Another lane may have a descriptor with the number of one that was closed. */
    context->loop_file = -1;
    context->waker = oribi_lane_waker(lane);
    tracing_enter(context);
    if (oribi_has_deadlines(lane) && !context->environment.deadline) {
        dCONTEXT_PERL(context);
        environment_offer_deadline(aTHX_ &context->environment);
    }
    signals_set_waker(oribi_lane_waker(lane), context->cloned);
    /* Signals that arrived before the waker was set could not wake the lane. */
    signals_wake();
}

void interpreter_leave(void *pointer) {
    Context *context = (Context *)pointer;
    oribi_waker *waker = context->waker;
    tracing_leave(context);
    context->waker = NULL;
    oribi_waker_free(waker);
#ifdef USE_ITHREADS
    if (context->cloned) {
        dCONTEXT_PERL(context);
        PERL_UNUSED_CONTEXT;
        signals_set_waker(NULL, TRUE);
        alarms_leave();
#if PERL_VERSION >= 28
        thread_locale_term();
#endif
        PERL_SET_CONTEXT(NULL);
    }
#endif
}

void interpreter_close(void *pointer) {
    Context *context = (Context *)pointer;
    dCONTEXT_PERL(context);
    int jump;
    dJMPENV;
#ifdef USE_ITHREADS
    PerlInterpreter *before = (PerlInterpreter *)PERL_GET_CONTEXT;
    PERL_SET_CONTEXT(my_perl);
#endif
    context->closing = TRUE;
    oribi_note_interpreter(-1);
    /* A destructor may call exit. */
    JMPENV_PUSH(jump);
    if (jump == 0) {
        SvREFCNT_dec(context->app);
        SvREFCNT_dec((SV *)context->deferred);
        environment_release(aTHX_ &context->environment);
#ifdef USE_ITHREADS
        if (context->cloned)
            perl_destruct(my_perl);
#endif
    }
    JMPENV_POP;
#ifdef USE_ITHREADS
    if (context->cloned) {
        perl_free(my_perl);
        Safefree(context->taken);
        Safefree(context);
        PERL_SET_CONTEXT(before == my_perl ? NULL : before);
    } else {
        PERL_SET_CONTEXT(before);
    }
#endif
    /* If the context is not a clone, its interpreter lives on, and objects that the app has kept may still refer to the
     * context. So the context is marked as closing and stays. */
}
