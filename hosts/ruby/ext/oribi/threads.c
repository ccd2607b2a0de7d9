/* threads.c - Ruby's threads, and the lock that they share. The server decides which thread waits for requests, which one
 * rests, and which one runs the app.
 *
 * No jump may leave the functions that the server calls, because their callers are Rust frames. Interrupts (Thread#raise,
 * Thread#kill, traps) are checked only where no request is being answered, and under rb_protect.
 */
#include "ruby_host.h"

static oribi_crew *crew; /* NULL in a process without a crew */
static unsigned forks;   /* the value of fork_count in the process that has it */

/* The calling thread was killed, or has no place any more. */
static _Thread_local bool must_end;

void threads_note_killed(void) {
    must_end = true;
}

bool threads_mark_waiting(void) {
    return crew && forks == fork_count && oribi_crew_mark_waiting(crew);
}

void threads_unmark_waiting(void) {
    if (crew && !oribi_crew_unmark_waiting(crew))
        must_end = true;
}

static bool has_own_lane;

bool threads_have_lane(void) {
    return crew != NULL || has_own_lane;
}

void threads_have_lane_now(bool has_lane) {
    has_own_lane = has_lane;
}

/* ---- The lock -------------------------------------------------------------------------------------------------------- */

typedef struct {
    void (*wait)(void *);
    void *argument;
} Waiting;

static void *wait_without_lock(void *argument) {
    const Waiting *waiting = argument;
    waiting->wait(waiting->argument);
    return argument;
}

/* Interrupts are not handled here, but later, by see_to_interrupts(). With RB_NOGVL_INTR_FAIL, a thread with a pending
 * interrupt does not wait at all; the end of its time slice also counts as an interrupt. Without RB_NOGVL_UBF_ASYNC_SAFE, Ruby
 * would start a thread for each wait in a process with a single thread. */
static int without_lock(void *data, void (*wait)(void *), void (*interrupt)(void *), void *argument) {
    Waiting waiting = {wait, argument};
    return rb_nogvl(wait_without_lock, &waiting, interrupt, argument, RB_NOGVL_INTR_FAIL | RB_NOGVL_UBF_ASYNC_SAFE) != NULL;
}

/* From 3.2 on, Ruby calls hooks when a thread is about to release the VM's lock. */
#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
enum { RUBY_REPORTS_UNLOCKING = true };

static void before_unlocking(rb_event_flag_t event, const rb_internal_thread_event_data_t *thread, void *unused) {
    (void)event, (void)thread, (void)unused;
    /* A child that the app has forked has none of the other threads. */
    if (crew && forks == fork_count)
        oribi_crew_before_unlocking(crew);
}

static void watch_ruby_lock(void) {
    rb_internal_thread_add_event_hook(before_unlocking, RUBY_INTERNAL_THREAD_EVENT_SUSPENDED, NULL);
}
#else
enum { RUBY_REPORTS_UNLOCKING = false };

static void watch_ruby_lock(void) {
}
#endif

static void begin(void *data, oribi_crew *begun, uint32_t most) {
    crew = begun;
    forks = fork_count;
    server.multithread = most > 1;
    if (server.multithread)
        watch_ruby_lock();
}

static void end(void *data) {
    crew = NULL;
}

/* ---- Threads --------------------------------------------------------------------------------------------------------- */

static VALUE run_thread(void *shared) {
    must_end = false;
    oribi_crew_serve(shared);
    return Qnil;
}

static VALUE create_thread(VALUE shared) {
    return rb_thread_create(run_thread, (void *)shared);
}

static int start_thread(void *data, oribi_crew *shared) {
    int state = 0;
    rb_protect(create_thread, (VALUE)shared, &state);
    if (state)
        rb_set_errinfo(Qnil);
    return state == 0;
}

/* Lets Ruby handle interrupts while no request is being answered. Returns false if the calling thread must end. */
static bool handle_interrupts(VALUE (*interruptible)(VALUE)) {
    int state = 0;
    VALUE error, text;
    if (must_end)
        return false;
    rb_protect(interruptible, Qnil, &state);
    /* A trap has forked, and this is the child, which has returned from the trap, too. */
    if (is_stray())
        state ? stray_end_as_program(state) : stray_end(0);
    if (!state)
        return true;
    error = rb_errinfo();
    rb_set_errinfo(Qnil);
    /* Thread#kill leaves a value that is no exception; exit, like Thread#kill, ends the thread. */
    if (!RTEST(rb_obj_is_kind_of(error, rb_eException)) || RTEST(rb_obj_is_kind_of(error, rb_eSystemExit)))
        return false;
    /* The exception was meant for a request that has just ended. */
    if (is_request_timeout(error))
        return true;
    text = rb_sprintf("%s was raised in a thread that answers no request", rb_obj_classname(error));
    oribi_log(ORIBI_LOG_WARN, RSTRING_PTR(text), (size_t)RSTRING_LEN(text));
    RB_GC_GUARD(text);
    return true;
}

static VALUE check_interrupts(VALUE unused) {
    rb_thread_check_ints();
    return Qnil;
}

/* Handles interrupts, and lets other threads run if the time slice of this thread is over. */
static int see_to_interrupts(void *data) {
    return handle_interrupts(check_interrupts);
}

bool threads_take_interrupts(void) {
    if (!handle_interrupts(check_interrupts))
        must_end = true;
    return !must_end;
}

static VALUE sleep_for_ever(VALUE unused) {
    rb_thread_sleep_forever();
    return Qnil;
}

/* Sleeps by a method of Ruby, because Ruby 3.1 handles a signal only in a main thread that sleeps so, and wakes no other thread
 * for it. */
static int rest_main(void *data) {
    return handle_interrupts(sleep_for_ever);
}

static void wake_main(void *data) {
    rb_thread_wakeup_alive(rb_thread_main());
}

const oribi_lock threads_lock = {
    .size = sizeof(oribi_lock),
    .begin = begin,
    .end = end,
    .without_lock = without_lock,
    .start_thread = start_thread,
    .see_to_interrupts = see_to_interrupts,
    .rest_main = rest_main,
    .wake_main = wake_main,
    .tells_before_unlocking = RUBY_REPORTS_UNLOCKING,
};
