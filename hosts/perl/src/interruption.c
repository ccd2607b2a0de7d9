/* interruption.c - apps that take too long: a backtrace in the log, or an exception in the app.
 *
 * The server passes its orders in a signal handler, on the thread whose interpreter answers. Perl code must not run there. So
 * the handler notes the order and sets the flag by which Perl knows that signals have arrived. Perl checks this flag between
 * operations, and after a system call that a signal has interrupted. Then it calls PL_signalhook, which otherwise calls the
 * handlers in %SIG; this file sets that pointer to its own function.
 *
 * C code that does not return to Perl, such as a regular expression that explodes, is not interrupted: that takes
 * --request-kill.
 */
#include "perl_host.h"
#include <time.h>

/* The key of an interpreter's context. */
static const char context_key[] = "Oribi::Context";

/* Returns the context of this interpreter, even if it answers no request. NULL in an interpreter or a process without one. */
static Context *own_context(pTHX) {
    SV **value = hv_fetch(PL_modglobal, context_key, sizeof context_key - 1, 0);
    Context *context = value && SvIOK(*value) ? INT2PTR(Context *, SvIVX(*value)) : NULL;
#ifdef MULTIPLICITY
    /* A thread that the app starts has copied the pointer from the interpreter that started it. */
    if (context && context->perl != my_perl)
        return NULL;
#endif
    /* A process that the app forks answers nothing. */
    return context && context->forks == forks_count() ? context : NULL;
}

Context *interruption_context(pTHX) {
    Context *context = own_context(aTHX);
    return context && context->answering ? context : NULL;
}

/* ---- In the signal handler ----------------------------------------------------------------------------------------------- */

void interruption_order(void *pointer, oribi_exchange exchange, oribi_order order, uint64_t milliseconds) {
    Context *context = (Context *)pointer;
    dCONTEXT_PERL(context);
    PERL_UNUSED_CONTEXT;
    if (!context->answering || context->exchange != exchange)
        return;
    if (order == ORIBI_ORDER_INTERRUPT)
        context->interrupt_after = milliseconds;
    else
        context->warn_after = milliseconds;
    PL_sig_pending = 1;
    /* The app may be waiting for a slow client. */
    signals_wake();
}

/* ---- Between two operations ---------------------------------------------------------------------------------------------- */

static bool in_destructor(pTHX) {
    for (const PERL_SI *stack = PL_curstackinfo; stack; stack = stack->si_prev)
        if (stack->si_type == PERLSI_DESTROY)
            return TRUE;
    return FALSE;
}

/* Returns the line of the program that started the server: backtraces of the app end there. */
static const COP *entrance(pTHX_ const Context *context) {
    const PERL_SI *stack = PL_curstackinfo;
    while (stack->si_prev && stack->si_prev != context->outside)
        stack = stack->si_prev;
    return stack->si_prev && stack->si_cxix >= 0 ? stack->si_cxstack[0].blk_oldcop : PL_curcop;
}

/* Calls a function of Oribi::RequestTimeout with the time in seconds, and with the file and the line from which the program
 * called the server. Returns the result, or NULL if the function died. Leaves $@ and errno unchanged. The caller frees
 * temporary values. */
static SV *call_class(pTHX_ Context *context, const char *function, uint64_t milliseconds) {
    const COP *const from = entrance(aTHX_ context);
    const char *const file = CopFILE(from);
    dSP;
    SV *result = NULL;
    dSAVE_ERRNO;
    context->locating = TRUE;
    PUSHSTACKi(PERLSI_SIGNAL);
    PUSHMARK(SP);
    EXTEND(SP, 3);
    mPUSHn((NV)milliseconds / 1000);
    mPUSHs(newSVpv(file ? file : "", 0));
    mPUSHu(CopLINE(from));
    PUTBACK;
    if (call_pv(function, G_SCALAR | G_EVAL | G_KEEPERR) == 1) {
        SPAGAIN;
        result = POPs;
        PUTBACK;
    }
    POPSTACK;
    context->locating = FALSE;
    RESTORE_ERRNO;
    return result;
}

static void log_position(pTHX_ Context *context, uint64_t milliseconds, const char *what) {
    SV *text;
    ENTER;
    SAVETMPS;
    text = call_class(aTHX_ context, "Oribi::RequestTimeout::backtrace", milliseconds);
    if (text && SvPOK(text))
        /* In one line: the log writes control characters as text. */
        app_log(aTHX_ context->present, ORIBI_LOG_WARN, "the app has done nothing for %g s and %s%s",
                (double)milliseconds / 1000, what, SvPVX_const(text));
    FREETMPS;
    LEAVE;
}

/* Logs the position of the app, if a warning was ordered and no interruption. */
static void handle_warning(pTHX_ Context *context) {
    const uint64_t after = context->warn_after;
    context->warn_after = 0;
    if (after && !context->interrupt_after)
        log_position(aTHX_ context, after, "goes on");
}

/* Raises the exception in the app, if an interruption was ordered. */
static void handle_interruption(pTHX_ Context *context) {
    const uint64_t after = context->interrupt_after;
    SV *exception;
    if (!after || PL_curstackinfo == context->outside)
        return;
    if (in_destructor(aTHX)) {
        /* Perl turns an exception that leaves a destructor into a mere warning. So the exception is raised once in the
         * destructor, to leave it, and then again in the code that runs after it. */
        if (context->left_destructor)
            return;
        context->left_destructor = TRUE;
    } else {
        context->interrupt_after = 0;
    }
    if (!context->position_logged) {
        context->position_logged = TRUE;
        log_position(aTHX_ context, after, "is interrupted");
    }
    exception = call_class(aTHX_ context, "Oribi::RequestTimeout::new", after);
    PL_sig_pending = 1;
    if (exception && SvROK(exception))
        croak_sv(exception);
    croak("oribi: the request took longer than %g s", (double)after / 1000);
}

static despatch_signals_proc_t perl_hook;

static void hook(pTHX) {
    Context *context = own_context(aTHX);
    if (context && context->question && !context->locating)
        tracing_answer(aTHX_ context);
    if (context && !context->answering)
        context = NULL;
    if (context) {
        /* An order that arrives while this file's own Perl code runs must not be raised in there. */
        if (context->locating)
            return;
        handle_warning(aTHX_ context);
        handle_interruption(aTHX_ context);
    }
    perl_hook(aTHX);
    /* Keep an order for which no exception can be raised yet. */
    if (context && context->interrupt_after)
        PL_sig_pending = 1;
}

void interruption_prepare(pTHX_ Context *context) {
    if (PL_signalhook != hook) {
        perl_hook = PL_signalhook;
        PL_signalhook = hook;
    }
    (void)hv_store(PL_modglobal, context_key, sizeof context_key - 1, newSViv(PTR2IV(context)), 0);
}

/* ---- sleep -------------------------------------------------------------------------------------------------------------- */

static OP *(*plain_sleep)(pTHX);

static bool has_signal(pTHX) {
    if (PL_psig_pend)
        for (int number = 1; number < SIG_SIZE; number++)
            if (PL_psig_pend[number])
                return TRUE;
    return FALSE;
}

/* The operator `sleep`, which continues to sleep after a warning. */
static OP *patient_sleep(pTHX) {
    Context *context = MAXARG > 0 && SvIOK(*PL_stack_sp) ? interruption_context(aTHX) : NULL;
    struct timespec left = {0, 0};
    time_t start;
    if (!context || SvIVX(*PL_stack_sp) < 0 || SvMAGICAL(*PL_stack_sp))
        return plain_sleep(aTHX);
    {
        dSP;
        dTARGET;
        left.tv_sec = (time_t)POPi;
        time(&start);
        while (nanosleep(&left, &left) != 0 && errno == EINTR && !context->interrupt_after && !has_signal(aTHX)) {
            PUTBACK;
            handle_warning(aTHX_ context);
            SPAGAIN;
        }
        XPUSHi((IV)(time(NULL) - start));
        PUTBACK;
        /* Perl itself would check only at the next branch or loop. */
        PERL_ASYNC_CHECK();
        return NORMAL;
    }
}

void interruption_define(void) {
    if (plain_sleep)
        return;
    plain_sleep = PL_ppaddr[OP_SLEEP];
    PL_ppaddr[OP_SLEEP] = patient_sleep;
}

/* ---- The app's own deadline --------------------------------------------------------------------------------------------- */

XS(interruption_extend) {
    dXSARGS;
    Context *context = interruption_context(aTHX);
    NV seconds = -1;
    if (items != 1)
        croak("usage: $env->{'oribi.deadline'}->($seconds), or undef for no deadline");
    if (SvOK(ST(0))) {
        seconds = SvNV(ST(0));
        if (!(seconds > 0 && seconds < 1e12))
            croak("a deadline is a number of seconds above 0, or undef for none");
    }
    if (context)
        oribi_extend_deadline(context->lane, context->exchange, seconds < 0 ? -1 : (int64_t)(seconds * 1000));
    XSRETURN_EMPTY;
}
