/* signals.c - the server's signal handlers under an app that uses %SIG.
 *
 * The server's handlers are installed behind Perl's back. When an app says `local $SIG{TERM} = ...`, Perl believes that the
 * former action was the default and restores that: from then on TERM would kill the worker in the middle of a request. A set
 * magic on the entries of %SIG sees it and puts the server's handler back: in a worker, that is the default.
 */
#include "perl_host.h"
#include <signal.h>

static const struct {
    int number;
    const char *name;
} watched[] = {
    {SIGTERM, "TERM"}, {SIGINT, "INT"},   {SIGQUIT, "QUIT"}, {SIGHUP, "HUP"},   {SIGUSR1, "USR1"},
    {SIGUSR2, "USR2"}, {SIGCHLD, "CHLD"}, {SIGTTIN, "TTIN"}, {SIGTTOU, "TTOU"}, {SIGPIPE, "PIPE"},
};

/* The actions of the process, which all its interpreters share, and the process they were read in. */
static struct sigaction server_actions[C_ARRAY_LENGTH(watched)];
static pid_t guarded;

/* Runs behind the magic that tells the system, so it has the last word. */
static int signal_set(pTHX_ SV *value, MAGIC *magic) {
    if (guarded != getpid() || (SvOK(value) && (SvROK(value) || strNE(SvPV_nolen_const(value), "DEFAULT"))))
        return 0;
    sigaction(watched[magic->mg_private].number, &server_actions[magic->mg_private], NULL);
    return 0;
}

static int signal_clear(pTHX_ SV *value, MAGIC *magic) {
    PERL_UNUSED_CONTEXT;
    UNUSED_ARGUMENT(value);
    if (guarded == getpid())
        sigaction(watched[magic->mg_private].number, &server_actions[magic->mg_private], NULL);
    return 0;
}

static const MGVTBL signal_magic = {.svt_set = signal_set, .svt_clear = signal_clear};

static void guard(pTHX_ SV *value, U16 which) {
    MAGIC *magic, *last;
    sv_unmagicext(value, PERL_MAGIC_ext, (MGVTBL *)&signal_magic);
    magic = sv_magicext(value, NULL, PERL_MAGIC_ext, &signal_magic, NULL, 0);
    magic->mg_private = which;
    if (!magic->mg_moremagic)
        return;
    SvMAGIC_set(value, magic->mg_moremagic);
    for (last = SvMAGIC(value); last->mg_moremagic; last = last->mg_moremagic)
        ;
    last->mg_moremagic = magic;
    magic->mg_moremagic = NULL;
}

void signals_guard(pTHX) {
    HV *handlers = get_hv("SIG", GV_ADD);
    guarded = getpid();
    for (U16 i = 0; i < C_ARRAY_LENGTH(watched); i++) {
        SV **value = hv_fetch(handlers, watched[i].name, (I32)strlen(watched[i].name), 1);
        sigaction(watched[i].number, NULL, &server_actions[i]);
        if (value)
            guard(aTHX_ *value, i);
    }
}
