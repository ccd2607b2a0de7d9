/* crew.c - the Ruby threads of a worker: they share one lane and lead it by turns.
 *
 * The VM's lock protects everything here, the lane included. A thread keeps the lock from request to request and lets go of it
 * only when there is nothing to do (or when an app does that by itself). One thread at a time waits for news, outside the lock;
 * others that have nothing to do rest. A thread that is about to call an app makes sure that another one is on its way to take
 * the next turn: that one gets the lock when the app waits for something, or when Ruby's time slice is over, and not before. So
 * a request costs no change of threads unless an app really waits.
 *
 * Nothing here may be left by a jump: Rust frames lie below. Interrupts (Thread#raise, Thread#kill, traps) are looked for where
 * no request is being answered, and under protection.
 */
#include "crew.h"
#include <errno.h>
#include <pthread.h>
#include <ruby.h>
#include <ruby/thread.h>
#include <string.h>
#include <time.h>

/* How long a thread beyond the least number rests before it ends. */
enum { REST_SECONDS = 30 };

/* How long the one that waits for news waits at most, where there are others. They find deadlines while it waits, and must wake it
 * for those that are nearer than the one it knows of: with this bound that is rarely so, for most are farther than that. */
enum { MOST_PATIENCE = 10000 };

static struct {
    oribi_crew *shared; /* NULL: this process has no crew */
    uint32_t least, most;
    uint32_t threads; /* that exist or are being started */
    uint32_t resting; /* threads that rest */
    uint32_t pausing; /* threads whose app waits for its client while another thread waits for news */
    bool called;      /* a thread was called or started and has not come yet */
    bool ended;       /* a turn said so */
    VALUE waiting;    /* the thread that waits for news, or nil */
    bool woken;       /* it was woken and has not come back yet */
    bool held;        /* its app waits for its client */
    uint64_t wakes;   /* when it will look by itself, in milliseconds of the monotonic clock */
} crew = {.waiting = Qnil};

/* Where threads sleep. It has a lock of its own, for it is used outside the VM's. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t call; /* one of those that rest is called */
    pthread_cond_t news; /* everything else */
    uint32_t calls;  /* to resting threads that none has heard yet */
    uint64_t rounds; /* grows when those that pause shall look again */
    bool ended;
} bed = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local bool killed;
static _Thread_local bool pause_was_cut; /* for an interrupt */

void crew_thread_was_killed(void) {
    killed = true;
}

/* ---- Sleeping, outside the VM's lock ------------------------------------------------------------------------------- */

typedef struct Sleep {
    bool (*over)(struct Sleep *);
    pthread_cond_t *bell;
    uint64_t seen;
    int milliseconds; /* -1: no limit */
    bool slept, interrupted, in_time;
} Sleep;

static void *sleep_in_bed(void *argument) {
    Sleep *sleep = argument;
    struct timespec until;
    sleep->slept = true;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += sleep->milliseconds / 1000;
    until.tv_nsec += sleep->milliseconds % 1000 * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    pthread_mutex_lock(&bed.lock);
    while (!(sleep->in_time = sleep->over(sleep)) && !sleep->interrupted) {
        if (sleep->milliseconds < 0)
            pthread_cond_wait(sleep->bell, &bed.lock);
        else if (pthread_cond_timedwait(sleep->bell, &bed.lock, &until) == ETIMEDOUT)
            break;
    }
    pthread_mutex_unlock(&bed.lock);
    return NULL;
}

/* Called by Ruby, in another thread, for this one has something else to do. */
static void interrupt_sleep(void *argument) {
    pthread_mutex_lock(&bed.lock);
    ((Sleep *)argument)->interrupted = true;
    pthread_cond_broadcast(((Sleep *)argument)->bell);
    pthread_mutex_unlock(&bed.lock);
}

/* Sleeps until `over` says so, the time is over, or the thread is interrupted. A thread that is already due to be interrupted, if
 * only because its time slice is over, does not sleep at all. */
static Sleep go_to_bed(pthread_cond_t *bell, bool (*over)(Sleep *), uint64_t seen, int milliseconds) {
    Sleep sleep = {.over = over, .bell = bell, .seen = seen, .milliseconds = milliseconds};
    rb_thread_call_without_gvl2(sleep_in_bed, &sleep, interrupt_sleep, &sleep);
    return sleep;
}

static bool heard_a_call(Sleep *sleep) {
    (void)sleep;
    if (bed.calls == 0)
        return bed.ended;
    bed.calls--;
    return true;
}

static bool round_is_over(Sleep *sleep) {
    return bed.rounds != sleep->seen || bed.ended;
}

/* Grows a number in the bed and wakes whom it may concern. */
static void announce(uint64_t *number) {
    pthread_mutex_lock(&bed.lock);
    ++*number;
    pthread_cond_broadcast(&bed.news);
    pthread_mutex_unlock(&bed.lock);
}

static uint64_t read_number(const uint64_t *number) {
    uint64_t value;
    pthread_mutex_lock(&bed.lock);
    value = *number;
    pthread_mutex_unlock(&bed.lock);
    return value;
}

/* ---- Waiting, resting, calling: with the VM's lock ----------------------------------------------------------------- */

static void *wait_for_news_without_lock(void *milliseconds) {
    oribi_crew_wait(crew.shared, *(int *)milliseconds);
    return &crew;
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

/* False: the thread was due to be interrupted and has not waited. */
static bool wait_for_news(int milliseconds, bool held) {
    bool waited;
    if (crew.most > 1) {
        if (milliseconds < 0 || milliseconds > MOST_PATIENCE)
            milliseconds = MOST_PATIENCE;
        crew.wakes = now() + (uint64_t)milliseconds;
    }
    crew.held = held;
    crew.woken = false;
    crew.waiting = rb_thread_current();
    waited = rb_thread_call_without_gvl2(wait_for_news_without_lock, &milliseconds, RUBY_UBF_IO, NULL) != NULL;
    crew.waiting = Qnil;
    return waited;
}

static void wake_waiting(void) {
    if (crew.woken)
        return;
    crew.woken = true;
    rb_thread_wakeup_alive(crew.waiting);
}

/* Sees to it that the thread which waits looks after `milliseconds` at the latest. */
static void hurry_waiting(int milliseconds) {
    if (milliseconds >= 0 && !NIL_P(crew.waiting) && now() + (uint64_t)milliseconds < crew.wakes)
        wake_waiting();
}

/* Rests until called. False: it was long, and the crew is large enough without the calling thread. */
static bool rest(void) {
    Sleep sleep;
    bool called;
    crew.resting++;
    sleep = go_to_bed(&bed.call, heard_a_call, 0, REST_SECONDS * 1000);
    crew.resting--;
    /* Whoever comes, comes for the call, too; and a call that went to a thread which was interrupted, or had just had enough rest,
     * is not waited for. */
    called = crew.called;
    crew.called = false;
    return called || sleep.in_time || sleep.interrupted || !sleep.slept || crew.threads <= crew.least;
}

static VALUE run_thread(void *unused);

static VALUE create_thread(VALUE unused) {
    (void)unused;
    return rb_thread_create(run_thread, NULL);
}

static bool start_thread(void) {
    int state = 0;
    crew.threads++;
    crew.called = true;
    rb_protect(create_thread, Qnil, &state);
    if (!state)
        return true;
    crew.threads--;
    crew.called = false;
    rb_set_errinfo(Qnil);
    return false;
}

static void call_resting(void) {
    crew.called = true;
    pthread_mutex_lock(&bed.lock);
    if (bed.calls < crew.resting)
        bed.calls++;
    pthread_cond_signal(&bed.call);
    pthread_mutex_unlock(&bed.lock);
}

/* Has another thread take the next turn, or else wait for news in its pause. */
static void call_another(void) {
    if (crew.resting)
        call_resting();
    else if (!(crew.threads < crew.most && start_thread()) && crew.pausing)
        announce(&bed.rounds);
}

/* From 3.2 on Ruby tells when a thread is about to let go of the VM's lock. That is early enough to call another one, so that apps
 * which do not wait cost no call. */
#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
static const bool ruby_tells = true;

static void lock_is_let_go(rb_event_flag_t event, const rb_internal_thread_event_data_t *thread, void *unused) {
    (void)event, (void)thread, (void)unused;
    if (!NIL_P(crew.waiting) || crew.called)
        return;
    if (crew.resting)
        call_resting();
    else if (crew.pausing)
        announce(&bed.rounds);
}

static void listen_to_ruby(void) {
    rb_internal_thread_add_event_hook(lock_is_let_go, RUBY_INTERNAL_THREAD_EVENT_SUSPENDED, NULL);
}
#else
static const bool ruby_tells = false;

static void listen_to_ruby(void) {
}
#endif

/* Sees to it that somebody waits for news, or is on the way to, should the calling thread let go of the lock. */
static void leave_the_lane(void) {
    if (NIL_P(crew.waiting) && !crew.called && !(ruby_tells && (crew.resting || crew.pausing)))
        call_another();
}

void crew_app_begins(void) {
    leave_the_lane();
}

int crew_pause(void *data, int milliseconds) {
    const uint64_t seen = read_number(&bed.rounds);
    bool slept;
    (void)data;
    if (NIL_P(crew.waiting) && !crew.called)
        call_another();
    if (NIL_P(crew.waiting) && !crew.called) {
        slept = wait_for_news(milliseconds, true);
        /* Others may have had to rest or to pause meanwhile, and this thread may go back to its app. */
        leave_the_lane();
    } else {
        hurry_waiting(milliseconds);
        crew.pausing++;
        slept = go_to_bed(&bed.news, round_is_over, seen, milliseconds).slept;
        crew.pausing--;
    }
    if (slept && !rb_thread_interrupted(rb_thread_current()))
        return 1;
    pause_was_cut = true;
    return 0;
}

oribi_result crew_write(oribi_lane *lane, oribi_exchange exchange, const char *data, size_t size) {
    oribi_result result;
    pause_was_cut = false;
    result = oribi_write(lane, exchange, data, size);
    /* Only a wake-up, perhaps: the client is still to be waited for. */
    while (pause_was_cut) {
        rb_thread_check_ints();
        pause_was_cut = false;
        result = oribi_write(lane, exchange, "", 0);
    }
    return result;
}

void crew_resume(void *data) {
    (void)data;
    if (crew.pausing)
        announce(&bed.rounds);
    /* Its news may have been taken by a thread whose turn it was, and then it waits for nothing. */
    if (!NIL_P(crew.waiting) && crew.held)
        wake_waiting();
}

void crew_summon(void *data) {
    (void)data;
    if (NIL_P(crew.waiting))
        leave_the_lane();
    else
        wake_waiting();
}

void crew_lane_was_used(void) {
    crew_summon(NULL);
}

/* ---- The life of a thread ------------------------------------------------------------------------------------------ */

static VALUE check_interrupts(VALUE unused) {
    (void)unused;
    rb_thread_check_ints();
    return Qnil;
}

/* Has Ruby see to what came from outside while no request is being answered. False: the thread is to end. */
static bool obey(VALUE (*interruptible)(VALUE)) {
    int state = 0;
    VALUE error, text;
    if (killed)
        return false;
    rb_protect(interruptible, Qnil, &state);
    if (!state)
        return true;
    error = rb_errinfo();
    rb_set_errinfo(Qnil);
    /* Thread#kill is no exception, and exit() means the same here. */
    if (!RTEST(rb_obj_is_kind_of(error, rb_eException)) || RTEST(rb_obj_is_kind_of(error, rb_eSystemExit)))
        return false;
    text = rb_sprintf("%s was raised in a thread that answers no request", rb_obj_classname(error));
    oribi_log(ORIBI_LOG_WARN, RSTRING_PTR(text), (size_t)RSTRING_LEN(text));
    RB_GC_GUARD(text);
    return true;
}

/* Between two requests. Lets others run, too, if the thread's time slice is over. */
static bool obey_interrupts(void) {
    return obey(check_interrupts);
}

static void end_crew(void) {
    crew.ended = true;
    pthread_mutex_lock(&bed.lock);
    bed.ended = true;
    pthread_cond_broadcast(&bed.call);
    pthread_cond_broadcast(&bed.news);
    pthread_mutex_unlock(&bed.lock);
    /* The turn that ends all may have taken the news for which this one waits. */
    if (!NIL_P(crew.waiting))
        wake_waiting();
}

static void take_turns(oribi_member *member) {
    do {
        int milliseconds = 0;
        switch (oribi_crew_turn(member, &milliseconds)) {
        case ORIBI_TURN_ANSWERED:
            break;
        case ORIBI_TURN_IDLE:
            if (NIL_P(crew.waiting)) {
                wait_for_news(milliseconds, false);
                break;
            }
            hurry_waiting(milliseconds);
            if (!rest())
                return;
            break;
        case ORIBI_TURN_END:
            end_crew();
            return;
        }
    } while (obey_interrupts());
}

static void join_and_leave(void) {
    oribi_member *member = oribi_crew_join(crew.shared);
    if (!member) {
        end_crew();
        return;
    }
    take_turns(member);
    oribi_crew_leave(member);
}

static VALUE run_thread(void *unused) {
    (void)unused;
    killed = false;
    crew.called = false;
    join_and_leave();
    crew.threads--;
    /* It may have been the one that waited for news, and no Ruby tells of its end. */
    if (!crew.ended && NIL_P(crew.waiting) && !crew.called)
        call_another();
    rb_thread_wakeup_alive(rb_thread_main());
    return Qnil;
}

static VALUE sleep_for_ever(VALUE unused) {
    (void)unused;
    rb_thread_sleep_forever();
    return Qnil;
}

/* On the main thread, while others work: traps run here. It sleeps as Ruby's own threads do, for Ruby 3.1 sees to a signal in
 * such a thread only, and wakes no other. */
static void oversee(void) {
    while (crew.threads) {
        while (!crew.ended && crew.threads < crew.least && start_thread())
            continue;
        if (!crew.threads)
            return;
        /* Threads leave with the VM's lock, so none leaves between the look at them and the sleep. */
        if (!obey(sleep_for_ever)) {
            /* The app has ended the main thread: nothing good can come after that. */
            end_crew();
            return;
        }
    }
}

void crew_work(void *data, oribi_crew *shared, uint32_t least, uint32_t most) {
    pthread_condattr_t attributes;
    (void)data;
    crew.shared = shared;
    crew.least = least ? least : 1;
    crew.most = most > crew.least ? most : crew.least;
    rb_gc_register_address(&crew.waiting);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&bed.call, &attributes);
    pthread_cond_init(&bed.news, &attributes);
    pthread_condattr_destroy(&attributes);
    listen_to_ruby();
    if (crew.most == 1) {
        /* Apps and their libraries may expect the main thread. */
        crew.threads = 1;
        join_and_leave();
    } else if (start_thread()) {
        oversee();
    }
    crew.shared = NULL;
}
