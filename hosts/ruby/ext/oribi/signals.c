/* signals.c - the signals that the server answers, in a process whose language has handlers of its own.
 *
 * Ruby's handlers (and rackup's traps) would turn TERM and INT into exceptions. The server's handlers call those they find, so
 * they must find none. Traps that an app sets later are its own: they replace the server's handler.
 */
#include "crew.h"
#include <signal.h>

static const int answered[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGTTIN, SIGTTOU, SIGPIPE};

enum { ANSWERED = sizeof answered / sizeof *answered };

static struct sigaction found[ANSWERED];

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
