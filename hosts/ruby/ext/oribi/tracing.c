/* tracing.c - backtraces of apps.
 *
 * A request for backtraces arrives in a signal handler, where Ruby must not be called. The first Ruby thread that reaches a
 * safe moment reports for all threads. That may be the main thread, in the trap of deadline.c, which Ruby runs even while the
 * main thread waits. Since Ruby 3.3 it may also be a thread that runs Ruby code, in a job that the signal handler has
 * registered. Before Ruby 3.3 a signal handler cannot register such a job safely, so the report comes when the main thread gets
 * Ruby's lock. After the trap Ruby continues the wait of the main thread.
 */
#include "ruby_host.h"
#include <ruby/debug.h>

/* The number of the request for backtraces; 0 if there is none. */
static _Atomic uint32_t asked;

/* The most frames: as many as the server keeps. */
#define MOST_FRAMES 100
/* The most frames that are counted. Endless recursion has more frames, but their number says nothing. */
#define MOST_COUNTED 20000

/* ---- At a moment that is safe ------------------------------------------------------------------------------------------- */

/* Nothing in this file may check for interrupts: an exception that another thread has sent to this one would be raised here,
 * where it is not expected, and the app would never get it. Ruby checks for interrupts whenever a method ends, even a method in
 * C. The trap defers all interrupts, which a job cannot do; so a job calls no method to collect its data. */

#ifdef HAVE_RB_PROFILE_THREAD_FRAMES
/* "file:line:in 'method'" for some frames of a thread, the innermost first. A function in C has the position of its call. */
static VALUE describe(const VALUE *frames, const int *numbers, int count) {
    VALUE lines = rb_ary_new_capa(count), place = Qnil;
    for (int i = count - 1; i >= 0; i--) {
        VALUE path = rb_profile_frame_path(frames[i]), label = rb_profile_frame_full_label(frames[i]);
        if (RB_TYPE_P(path, T_STRING) && numbers[i] > 0)
            place = rb_sprintf("%" PRIsVALUE ":%d", path, numbers[i]);
        if (!RB_TYPE_P(label, T_STRING))
            continue;
        rb_ary_push(lines, NIL_P(place) ? label : rb_sprintf("%" PRIsVALUE ":in '%" PRIsVALUE "'", place, label));
    }
    return rb_ary_reverse(lines);
}

static VALUE lines_of_other(VALUE thread, size_t *more) {
    VALUE frames[MOST_FRAMES];
    int numbers[MOST_FRAMES], found = rb_profile_thread_frames(thread, 0, MOST_FRAMES, frames, numbers);
    VALUE lines = describe(frames, numbers, found);
    for (int start = MOST_FRAMES; found == MOST_FRAMES && start < MOST_COUNTED; start += MOST_FRAMES) {
        found = rb_profile_thread_frames(thread, start, MOST_FRAMES, frames, numbers);
        *more += (size_t)found;
    }
    return lines;
}
#else
/* Only the trap calls this. */
static VALUE lines_of_other(VALUE thread, size_t *more) {
    if (!rb_method_basic_definition_p(CLASS_OF(thread), names.backtrace))
        return Qnil;
    return rb_funcallv(thread, names.backtrace, 0, NULL);
}
#endif

/* Reports for a thread. False if it answers no request. The first `skip` frames of the calling thread are not the app's. */
static bool answer_for(const Context *context, uint32_t question, long skip) {
    oribi_bytes frames[MOST_FRAMES], about = {"", 0};
    VALUE lines, line;
    size_t count = 0, more = 0;
    const Call *call = context_call(context);
    bool own;
    if (!call)
        return false;
    line = failure_line(call->environment);
    about.data = RSTRING_PTR(line);
    about.size = RSTRING_LEN(line) > 2 ? (size_t)RSTRING_LEN(line) - 2 : 0;
    own = context->thread == rb_thread_current();
    lines = own ? rb_make_backtrace() : lines_of_other(context->thread, &more);
    if (RB_TYPE_P(lines, T_ARRAY)) {
        for (long i = own ? skip : 0; i < RARRAY_LEN(lines); i++) {
            VALUE frame = RARRAY_AREF(lines, i);
            if (!RB_TYPE_P(frame, T_STRING))
                continue;
            if (count == MOST_FRAMES) {
                more++;
                continue;
            }
            frames[count].data = RSTRING_PTR(frame);
            frames[count++].size = (size_t)RSTRING_LEN(frame);
        }
    }
    oribi_trace_tell(question, context->kernel_thread, about, frames, count, more);
    RB_GC_GUARD(line);
    RB_GC_GUARD(lines);
    return true;
}

static VALUE answer_question(VALUE skip) {
    const uint32_t question = atomic_exchange(&asked, 0);
    uint32_t threads = 0;
    VALUE contexts;
    if (!question)
        return Qnil;
    contexts = rb_ary_new();
    for (const Context *context = context_first(); context; context = context->next)
        rb_ary_push(contexts, context->self);
    for (long i = 0; i < RARRAY_LEN(contexts); i++)
        threads += answer_for(RTYPEDDATA_DATA(RARRAY_AREF(contexts, i)), question, FIX2LONG(skip));
    oribi_trace_expect(question, threads);
    RB_GC_GUARD(contexts);
    return Qnil;
}

void tracing_answer_pending(long skip) {
    if (atomic_load_explicit(&asked, memory_order_relaxed))
        failure_guard("the backtraces of apps cannot be reported", Qnil, answer_question, LONG2FIX(skip));
}

/* ---- In the signal handler ----------------------------------------------------------------------------------------------- */

#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
static rb_postponed_job_handle_t job = POSTPONED_JOB_HANDLE_INVALID;

static void do_job(void *unused) {
    tracing_answer_pending(0);
}

void tracing_begin(void) {
    job = rb_postponed_job_preregister(0, do_job, NULL);
}

static void ask_for_job(void) {
    if (job != POSTPONED_JOB_HANDLE_INVALID)
        rb_postponed_job_trigger(job);
}
#else
void tracing_begin(void) {
}

static void ask_for_job(void) {
}
#endif

void tracing_ask(void *data, uint32_t question) {
    atomic_store(&asked, question);
    ask_for_job();
    messenger_call_main();
}
