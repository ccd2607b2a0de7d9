/* signals.c - the server's signals, in a process whose language has handlers of its own.
 *
 * Ruby's handlers (and rackup's traps) would turn TERM and INT into exceptions. The server's handlers call the handlers that
 * they have replaced, so Ruby's handlers must be removed before the server sets its own. A trap that an app sets later replaces
 * the server's handler, and the signal is then the app's.
 */
#include "ruby_host.h"
#include <signal.h>

static const int answered[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGTTIN, SIGTTOU, SIGPIPE};

enum { ANSWERED = sizeof answered / sizeof *answered };

static struct sigaction found[ANSWERED];

/* The server's own handlers in a worker. */
static struct sigaction servers[ANSWERED];

void signals_yield_to_server(void) {
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigemptyset(&standard.sa_mask);
    for (int i = 0; i < ANSWERED; i++)
        sigaction(answered[i], &standard, &found[i]);
}

void signals_restore(void) {
    for (int i = 0; i < ANSWERED; i++)
        sigaction(answered[i], &found[i], NULL);
}

void signals_know_servers(void) {
    for (int i = 0; i < ANSWERED; i++)
        sigaction(answered[i], NULL, &servers[i]);
}

static bool is_standard(const struct sigaction *action) {
    return !(action->sa_flags & SA_SIGINFO) && (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN);
}

void signals_leave_server(void) {
    for (int i = 0; i < ANSWERED; i++) {
        struct sigaction present;
        sigaction(answered[i], NULL, &present);
        /* Any other handler is a trap of the app. */
        if (!is_standard(&present) && present.sa_sigaction == servers[i].sa_sigaction)
            sigaction(answered[i], &found[i], NULL);
    }
}
