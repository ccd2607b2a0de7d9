/* alarms.c - `alarm` in cloned interpreters.
 *
 * Only Perl's first interpreter can install signal handlers in the system. In a cloned interpreter, `$SIG{ALRM} = sub {...}`
 * does not reach the system, so an alarm would end the process with all its lanes. But apps set alarms to limit slow calls. So
 * this file installs a handler in the system, and gives each lane a timer of its own.
 *
 * Code that was compiled before this module was loaded (plackup compiles apps first) and Time::HiRes still set the only timer
 * of the process. Its alarm goes to every lane that has a handler at that time. So an alarm may arrive too early, at a lane
 * that did not set it; but no slow call loses its limit, and the process does not end.
 */
#include "perl_host.h"

#if defined(USE_ITHREADS) && defined(__linux__)
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* The most lanes of a worker. */
#define LANES_MOST 1024

static struct {
    atomic_bool used;
    pthread_t thread;
} lanes[LANES_MOST];

static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;

static OP *(*process_alarm)(pTHX);
static __thread timer_t lane_clock;
static __thread bool has_clock;

/* Acts as Perl's own handler: records the signal, so that Perl calls the app's handler between two operations. Ignores the
 * alarm if the lane has no handler. */
static void ring_here(int number) {
    PerlInterpreter *my_perl = (PerlInterpreter *)PERL_GET_CONTEXT;
    if (!my_perl || my_perl == PL_curinterp || !PL_psig_ptr || !PL_psig_pend || !PL_psig_ptr[number]
        || !SvOK(PL_psig_ptr[number]))
        return;
    PL_psig_pend[number]++;
    PL_sig_pending = 1;
    signals_wake();
}

static void handle_alarm(int number, siginfo_t *origin, void *machine_state) {
    int saved_errno = errno;
    UNUSED_ARGUMENT(machine_state);
    if (origin && (origin->si_code == SI_TIMER || origin->si_code == SI_TKILL)) {
        ring_here(number);
    } else {
        for (int i = 0; i < LANES_MOST; i++)
            if (atomic_load(&lanes[i].used))
                pthread_kill(lanes[i].thread, number);
    }
    errno = saved_errno;
}

/* Makes a timer whose alarm goes to the calling thread. */
static bool make_clock(void) {
    struct sigevent event;
    Zero(&event, 1, struct sigevent);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGALRM;
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    return timer_create(CLOCK_MONOTONIC, &event, &lane_clock) == 0;
}

/* The operator `alarm`. */
static OP *lane_alarm(pTHX) {
    struct itimerspec next = {{0, 0}, {0, 0}}, before = {{0, 0}, {0, 0}};
    IV seconds;
    if (PL_curinterp == my_perl)
        return process_alarm(aTHX);
    {
        dSP;
        dTARGET;
        seconds = POPi;
        if (seconds < 0) {
            SETERRNO(EINVAL, LIB_INVARG);
            RETPUSHUNDEF;
        }
        next.it_value.tv_sec = seconds;
        /* A process that the app forked has not inherited the timer. */
        if (!has_clock || timer_settime(lane_clock, 0, &next, &before) != 0) {
            has_clock = make_clock();
            if (!has_clock || timer_settime(lane_clock, 0, &next, &before) != 0)
                RETPUSHUNDEF;
        }
        /* The result of alarm(2): the remaining time, and never 0 for a running clock. */
        PUSHu((UV)before.it_value.tv_sec + (before.it_value.tv_nsec > 0));
        RETURN;
    }
}

void alarms_define(void) {
    if (process_alarm)
        return;
    process_alarm = PL_ppaddr[OP_ALARM];
    PL_ppaddr[OP_ALARM] = lane_alarm;
}

void alarms_enter(void) {
    static pid_t prepared;
    struct sigaction action;
    pthread_mutex_lock(&changing);
    for (int i = 0; i < LANES_MOST; i++) {
        if (!atomic_load(&lanes[i].used)) {
            lanes[i].thread = pthread_self();
            atomic_store(&lanes[i].used, TRUE);
            break;
        }
    }
    /* If an app has handled or ignored alarms while it was loaded, that is meant for the whole process. */
    if (prepared != getpid() && sigaction(SIGALRM, NULL, &action) == 0 && action.sa_handler == SIG_DFL) {
        Zero(&action, 1, struct sigaction);
        action.sa_sigaction = handle_alarm;
        /* Without SA_RESTART, because the alarm must interrupt system calls. */
        action.sa_flags = SA_SIGINFO;
        sigemptyset(&action.sa_mask);
        sigaction(SIGALRM, &action, NULL);
    }
    prepared = getpid();
    pthread_mutex_unlock(&changing);
}

void alarms_leave(void) {
    if (has_clock)
        timer_delete(lane_clock);
    has_clock = FALSE;
    pthread_mutex_lock(&changing);
    for (int i = 0; i < LANES_MOST; i++)
        if (atomic_load(&lanes[i].used) && pthread_equal(lanes[i].thread, pthread_self()))
            atomic_store(&lanes[i].used, FALSE);
    pthread_mutex_unlock(&changing);
}
#else
void alarms_define(void) {
}
void alarms_enter(void) {
}
void alarms_leave(void) {
}
#endif
