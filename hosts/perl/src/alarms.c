/* alarms.c - `alarm` in cloned interpreters.
 *
 * Perl lets only the interpreter that was there first set signal handlers: in a clone `$SIG{ALRM} = sub {...}` reaches Perl but
 * not the system, and the alarm ends the process with all its lanes. Apps put alarms around slow calls; therefore the handler
 * of the system is set here, and each lane has a clock of its own.
 *
 * Code that was compiled before this module was loaded, which is what plackup does with an app, and Time::HiRes still set the
 * one clock of the process. Its alarm rings in every lane that has a handler at that time: it may come too early for one that
 * was not meant, but no call stays without its limit, and nobody dies.
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

/* As many lanes as a worker can have. */
#define LANES_MOST 1024

static struct {
    atomic_bool used;
    pthread_t thread;
} lanes[LANES_MOST];

static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;

static OP *(*process_alarm)(pTHX);
static __thread timer_t lane_clock;
static __thread bool has_clock;

/* What Perl's own handler does: the app's is called where Perl can be interrupted. Without one, an alarm in a lane is
 * nothing. */
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

/* A clock whose alarm goes to the calling thread. */
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
        /* A process that the app forked has inherited no clock. */
        if (!has_clock || timer_settime(lane_clock, 0, &next, &before) != 0) {
            has_clock = make_clock();
            if (!has_clock || timer_settime(lane_clock, 0, &next, &before) != 0)
                RETPUSHUNDEF;
        }
        /* As alarm(2): what was left, and never 0 of a clock that was running. */
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
    /* An app that has handled or ignored alarms when it was loaded means the whole process. */
    if (prepared != getpid() && sigaction(SIGALRM, NULL, &action) == 0 && action.sa_handler == SIG_DFL) {
        Zero(&action, 1, struct sigaction);
        action.sa_sigaction = handle_alarm;
        /* Without SA_RESTART: a system call that the alarm is to interrupt must return. */
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
