/* messenger.c - the signal by which signal handlers call Ruby's main thread, for which deadline.c sets a trap. */
#include "ruby_host.h"
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's thread ID of Ruby's main thread, and the process that it belongs to. Written before the server can interrupt
 * anything. */
static volatile pid_t main_thread, main_process;

int messenger_signal(void) {
    return SIGRTMIN + 4;
}

void messenger_begin(void) {
    main_thread = (pid_t)syscall(SYS_gettid);
    main_process = getpid();
}

void messenger_call_main(void) {
    /* A process that the app has forked has inherited these values, but has no such thread and answers no request. */
    if (main_process == getpid())
        syscall(SYS_tgkill, main_process, main_thread, messenger_signal());
}
