/* forks.c - forks of the process: their number, and the end of a process that the app has forked and left. */
#include "perl_host.h"
#include <pthread.h>
#include <unistd.h>

static unsigned forks;

static void count_fork(void) {
    forks++;
    children_adopt();
}

unsigned forks_count(void) {
    return forks;
}

void forks_watch(void) {
    static bool watching;
    if (!watching)
        pthread_atfork(NULL, NULL, count_fork);
    watching = TRUE;
}

int forks_end_interpreter(pTHX_ int status) {
    int jump;
    dJMPENV;
    JMPENV_PUSH(jump);
    if (jump == 0)
        my_exit((U32)status);
    JMPENV_POP;
#ifdef MULTIPLICITY
    status = perl_destruct(my_perl);
#else
    status = perl_destruct(PL_curinterp);
#endif
    /* Output of destructors and of C code, because the process ends without exit(3). */
    PerlIO_flush(NULL);
    fflush(NULL);
    return status;
}

void forks_end_stray(pTHX_ int status) {
    _exit(forks_end_interpreter(aTHX_ status));
}
