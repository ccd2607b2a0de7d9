/* signals.c - the app's signal handlers in a worker, and the server's handlers in an app that uses %SIG.
 *
 * Perl's own signal handler, in C, only records that the signal has arrived; Perl calls the app's handler in %SIG later,
 * between two operations. A worker that waits for requests, or for a slow client, runs no Perl operations. So the handler of
 * this file calls Perl's own handler and then wakes the lane, which calls signals_dispatch as soon as it is between two
 * requests or within a write.
 *
 * The server installs its handlers without Perl's knowledge. When an app executes `local $SIG{TERM} = ...`, Perl believes that
 * the former action was the default, and restores the default at the end of the scope: from then on TERM would kill the worker
 * in the middle of a request. Magic on the entries of %SIG notices this and restores the server's handler, which takes the
 * place of the default action in a worker.
 */
#include "perl_host.h"
#include <signal.h>

/* ---- Waking -------------------------------------------------------------------------------------------------------------- */

/* The waker of the interpreter that loaded the app, if that interpreter answers requests; and the waker of the cloned
 * interpreter that this thread uses. */
static oribi_waker *volatile own_waker;
static __thread oribi_waker *clone_waker;
/* The value of forks_count() in the process to which the wakers belong: a process that the app forks has no lane of its own. */
static volatile unsigned wakers_forks;

void signals_set_waker(oribi_waker *waker, bool cloned) {
    if (cloned) {
        oribi_waker *former = clone_waker;
        clone_waker = waker;
        oribi_waker_free(former);
    } else {
        /* Never freed, because a handler may run in any thread. There is one for each process. */
        own_waker = waker;
    }
    wakers_forks = forks_count();
}

void signals_wake(void) {
    const oribi_waker *waker = clone_waker ? clone_waker : own_waker;
    if (waker && wakers_forks == forks_count())
        oribi_wake(waker);
}

/* Perl's own handlers. */
static Sighandler_t perl_handler;
#if PERL_VERSION >= 32
static Sighandler1_t perl_handler1;
static Sighandler3_t perl_handler3;
#endif

#if PERL_VERSION >= 32
static void arrived1(int number) {
    perl_handler1(number);
    signals_wake();
}

static void arrived3(int number, Siginfo_t *origin, void *machine_state) {
    perl_handler3(number, origin, machine_state);
    signals_wake();
}
#endif

#if defined(PERL_USE_3ARG_SIGHANDLER) || (PERL_VERSION < 32 && defined(HAS_SIGACTION) && defined(SA_SIGINFO))
static Signal_t arrived(int number, siginfo_t *origin, void *machine_state) {
    perl_handler(number, origin, machine_state);
    signals_wake();
}
#else
static Signal_t arrived(int number) {
    perl_handler(number);
    signals_wake();
}
#endif

void signals_define(void) {
    if (perl_handler)
        return;
    perl_handler = PL_csighandlerp;
    PL_csighandlerp = arrived;
#if PERL_VERSION >= 32
    perl_handler1 = PL_csighandler1p;
    perl_handler3 = PL_csighandler3p;
    PL_csighandler1p = arrived1;
    PL_csighandler3p = arrived3;
#endif
}

/* Handlers that were set before this module was loaded (plackup loads apps first) are still Perl's own: replaces them by those
 * of this file. */
static void wrap_present(void) {
    for (int number = 1; number < NSIG; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) != 0)
            continue;
        /* Both kinds of handlers are stored at the same place. */
        if ((void *)action.sa_handler == (void *)perl_handler)
            action.sa_handler = (void (*)(int))(void *)arrived;
#if PERL_VERSION >= 32
        else if (action.sa_handler == perl_handler1)
            action.sa_handler = arrived1;
        else if (action.sa_sigaction == perl_handler3)
            action.sa_sigaction = arrived3;
#endif
        else
            continue;
        sigaction(number, &action, NULL);
    }
}

/* Calls the handlers for the signals that have arrived; only called through protected_call. */
static XS(dispatch) {
    dXSARGS;
    PERL_UNUSED_VAR(items);
    PERL_ASYNC_CHECK();
    XSRETURN_EMPTY;
}

bool signals_dispatch(pTHX) {
    SV *code;
    if (!PL_sig_pending)
        return TRUE;
    code = sv_2mortal((SV *)newXS(NULL, dispatch, __FILE__));
    if (protected_call(aTHX_ code, NULL))
        return TRUE;
    /* Handlers after the one that died must still be called. */
    PL_sig_pending = 1;
    return FALSE;
}

/* ---- Guarding ------------------------------------------------------------------------------------------------------------ */

typedef struct {
    int number;
    const char *name;
    struct sigaction server; /* the action of the process, which all its interpreters share */
} Watched;

static Watched watched[] = {
    {.number = SIGTERM, .name = "TERM"}, {.number = SIGINT, .name = "INT"},   {.number = SIGQUIT, .name = "QUIT"},
    {.number = SIGHUP, .name = "HUP"},   {.number = SIGUSR1, .name = "USR1"}, {.number = SIGUSR2, .name = "USR2"},
    {.number = SIGCHLD, .name = "CHLD"}, {.number = SIGTTIN, .name = "TTIN"}, {.number = SIGTTOU, .name = "TTOU"},
    {.number = SIGPIPE, .name = "PIPE"},
};

/* The process in which `server` was read. */
static pid_t guarded;

static void give_back(const MAGIC *magic) {
    const Watched *signal = (const Watched *)magic->mg_ptr;
    if (guarded == getpid())
        sigaction(signal->number, &signal->server, NULL);
}

/* Runs after Perl's magic that sets the action in the system, so the action that is set here remains. */
static int signal_set(pTHX_ SV *value, MAGIC *magic) {
    if (!SvOK(value) || (!SvROK(value) && strEQ(SvPV_nolen_const(value), "DEFAULT")))
        give_back(magic);
    return 0;
}

static int signal_clear(pTHX_ SV *value, MAGIC *magic) {
    PERL_UNUSED_CONTEXT;
    UNUSED_ARGUMENT(value);
    give_back(magic);
    return 0;
}

static void guard(pTHX_ SV *value, const Watched *signal);

/* `local` gives the entry a new value. Perl calls this function for each magic of the old value, in order; this one adds its
 * magic at the end. */
static int signal_localize(pTHX_ SV *value, MAGIC *magic) {
    guard(aTHX_ value, (const Watched *)magic->mg_ptr);
    return 0;
}

static const MGVTBL signal_magic = {.svt_set = signal_set, .svt_clear = signal_clear, .svt_local = signal_localize};

static void guard(pTHX_ SV *value, const Watched *signal) {
    MAGIC *magic, *last;
    sv_unmagicext(value, PERL_MAGIC_ext, (MGVTBL *)&signal_magic);
    /* Without a length the pointer itself is stored, also in clones of the interpreter. */
    magic = sv_magicext(value, NULL, PERL_MAGIC_ext, &signal_magic, (const char *)signal, 0);
    magic->mg_flags |= MGf_LOCAL;
    if (!magic->mg_moremagic)
        return;
    SvMAGIC_set(value, magic->mg_moremagic);
    for (last = SvMAGIC(value); last->mg_moremagic; last = last->mg_moremagic)
        ;
    last->mg_moremagic = magic;
    magic->mg_moremagic = NULL;
}

/* Called when an entry is added to %SIG. An entry that the app has deleted before has lost its magic: guards it again. */
static int entry_added(pTHX_ SV *hash, MAGIC *magic, SV *value, const char *key, I32 key_size) {
    STRLEN size = (STRLEN)key_size;
    UNUSED_ARGUMENT(hash);
    UNUSED_ARGUMENT(magic);
    if (key_size == HEf_SVKEY)
        key = SvPV_const((SV *)key, size);
    for (size_t i = 0; i < C_ARRAY_LENGTH(watched); i++)
        if (strlen(watched[i].name) == size && memEQ(watched[i].name, key, size))
            guard(aTHX_ value, &watched[i]);
    return 1;
}

static const MGVTBL handlers_magic = {.svt_copy = entry_added};

void signals_guard(pTHX) {
    HV *handlers = get_hv("SIG", GV_ADD);
    guarded = getpid();
    wrap_present();
    sv_unmagicext((SV *)handlers, PERL_MAGIC_ext, (MGVTBL *)&handlers_magic);
    sv_magicext((SV *)handlers, NULL, PERL_MAGIC_ext, &handlers_magic, NULL, 0)->mg_flags |= MGf_COPY;
    for (size_t i = 0; i < C_ARRAY_LENGTH(watched); i++) {
        Watched *signal = &watched[i];
        SV **value = hv_fetch(handlers, signal->name, (I32)strlen(signal->name), 1);
        sigaction(signal->number, NULL, &signal->server);
        if (value)
            guard(aTHX_ *value, signal);
    }
}
