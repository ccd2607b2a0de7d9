/* deferred.c - work after a response has been sent: rack.response_finished, rack.after_reply, work between requests. */
#include "ruby_host.h"

/* The elements of a record. */
enum { RECORD_ENVIRONMENT, RECORD_STATUS, RECORD_HEADERS, RECORD_ERROR, RECORD_FINISHED, RECORD_AFTER_REPLY, RECORD_SIZE };

/* Work between requests belongs to the process, not to a thread. */
static struct {
    unsigned every;            /* requests between two collections of garbage; 0 without collections */
    unsigned until_collection; /* requests until the next one */
    bool has_hooks;            /* there are out_of_band hooks */
    bool collect;              /* garbage is to be collected */
    bool due;                  /* there is work to do */
} between;

VALUE deferred_record(const Call *call) {
    /* A failed call has neither status nor headers. */
    const bool failed = !NIL_P(call->error);
    return rb_ary_new_from_args(RECORD_SIZE, call->environment, failed ? Qnil : call->status, failed ? Qnil : call->headers,
                                call->error, call->finished ? call->finished : Qnil,
                                call->after_reply ? call->after_reply : Qnil);
}

static bool has_elements(VALUE list) {
    return list && RB_TYPE_P(list, T_ARRAY) && RARRAY_LEN(list) > 0;
}

static VALUE note(VALUE argument) {
    const Call *call = (const Call *)argument;
    rb_ary_push(call->context->deferred, deferred_record(call));
    return Qnil;
}

/* Counts a request, and checks whether it is time for work between requests. */
static void count_request(void) {
    if (between.until_collection > 0 && --between.until_collection == 0) {
        between.until_collection = between.every;
        between.collect = true;
    }
    between.due = between.collect || between.has_hooks;
}

void deferred_note(Call *call) {
    if (RB_UNLIKELY(has_elements(call->finished) || has_elements(call->after_reply)))
        failure_guard("the tasks for the time after the response are lost", call->environment, note, (VALUE)call);
    count_request();
}

/* The garbage collector treats every value on the stack as a reference, and values of finished calls remain in the gaps between
 * the frames of later calls. */
__attribute__((noinline)) void deferred_wipe_stack(void) {
    volatile char left[64 << 10];
    for (size_t i = 0; i < sizeof left; i += sizeof(VALUE))
        *(volatile VALUE *)(left + i) = 0;
}

uint32_t deferred_next(Context *context) {
    if (RB_UNLIKELY(context->looks))
        deferred_wipe_stack();
    if (RB_UNLIKELY(RARRAY_LEN(context->deferred) > 0 || between.due || context->looks))
        return ORIBI_AFTER_DEFERRED;
    if (RB_LIKELY(!context->retiring))
        return 0;
    context->retiring = false;
    return ORIBI_AFTER_RETIRE;
}

/* ---- Callables ---------------------------------------------------------------------------------------------------------- */

typedef struct {
    VALUE callable;
    int count;
    const VALUE *arguments;
} Callback;

static VALUE call_back(VALUE argument) {
    const Callback *callback = (const Callback *)argument;
    return rb_funcallv(callback->callable, names.call, callback->count, callback->arguments);
}

static void guard(Context *context, const char *what, VALUE environment, VALUE callable, int count, const VALUE *arguments) {
    const Callback callback = {callable, count, arguments};
    if (failure_guard(what, environment, call_back, (VALUE)&callback) == GUARD_EXITED)
        context->retiring = true;
    if (context->forks != fork_count)
        stray_end(0);
}

void deferred_run_record(Context *context, VALUE record) {
    VALUE finished = RARRAY_AREF(record, RECORD_FINISHED), after_reply = RARRAY_AREF(record, RECORD_AFTER_REPLY);
    const VALUE arguments[] = {RARRAY_AREF(record, RECORD_ENVIRONMENT), RARRAY_AREF(record, RECORD_STATUS),
                               RARRAY_AREF(record, RECORD_HEADERS), RARRAY_AREF(record, RECORD_ERROR)};
    /* A callable may register another one. The last registered one is called first. */
    while (has_elements(finished) && !RB_OBJ_FROZEN(finished))
        guard(context, "rack.response_finished failed", arguments[0], rb_ary_pop(finished), 4, arguments);
    while (has_elements(after_reply) && !RB_OBJ_FROZEN(after_reply))
        guard(context, "rack.after_reply failed", arguments[0], rb_ary_shift(after_reply), 0, NULL);
    RB_GC_GUARD(record);
}

/* ---- Between requests --------------------------------------------------------------------------------------------------- */

/* Whether no request waits for this worker, so that work between requests delays no client. */
static bool nobody_waits(const Context *context) {
    return oribi_waiting(context->lane) == 0;
}

static VALUE draw(VALUE unused) {
    return rb_funcall(rb_mKernel, rb_intern("rand"), 1, UINT2NUM(server.collect_every - server.collect_from + 1));
}

void deferred_begin(void) {
    between.has_hooks = has_elements(rb_hash_lookup(server.hooks, ID2SYM(rb_intern("out_of_band"))));
    between.every = server.collect_every;
    if (server.collect_from > 0 && server.collect_from < server.collect_every) {
        int state;
        VALUE number = rb_protect(draw, Qnil, &state);
        if (state)
            failure_log("the garbage collection's interval cannot be drawn", Qnil, NULL);
        else
            between.every = server.collect_from + NUM2UINT(number);
    }
    between.until_collection = between.every;
}

static VALUE collect(VALUE unused) {
    const ID oob = rb_intern("OOB");
    if (server.gctools && rb_const_defined(rb_mGC, oob)) {
        rb_funcall(rb_const_get(rb_mGC, oob), names.run, 0);
    } else {
        const bool was_disabled = RTEST(rb_gc_enable());
        rb_gc_start();
        if (was_disabled)
            rb_gc_disable();
    }
    return Qnil;
}

static void work_between(Context *context) {
    VALUE hooks = rb_hash_lookup(server.hooks, ID2SYM(rb_intern("out_of_band")));
    const bool collects = between.collect;
    between.due = between.collect = false;
    if (between.has_hooks && RB_TYPE_P(hooks, T_ARRAY)) {
        VALUE worker = UINT2NUM(server.worker);
        for (long i = 0; i < RARRAY_LEN(hooks); i++)
            guard(context, "an out_of_band hook failed", Qnil, RARRAY_AREF(hooks, i), 1, &worker);
    }
    if (collects && failure_guard("the garbage collection failed", Qnil, collect, Qnil) == GUARD_EXITED)
        context->retiring = true;
}

/* The streams that were dropped last. */
enum { DROPS = 64 };
static uint64_t dropped[DROPS];
static unsigned drops;

void deferred_note_dropped(uint64_t stream) {
    dropped[drops++ % DROPS] = stream;
}

static bool was_dropped(uint64_t stream) {
    for (unsigned i = 0; i < DROPS; i++)
        if (dropped[i] == stream)
            return true;
    return false;
}

void deferred_look_for(Context *context, uint64_t stream, VALUE record) {
    rb_ary_push(context->streams, ULL2NUM(stream));
    rb_ary_push(context->streams, record);
    context->looks = true;
}

/* Collects garbage: if `whole` is false, only young objects, which takes a fraction of the time of a full collection. */
static VALUE collect_for_stream(VALUE whole) {
    VALUE options = rb_hash_new();
    rb_hash_aset(options, ID2SYM(rb_intern("full_mark")), whole);
    return rb_funcallv_kw(rb_mGC, rb_intern("start"), 1, &options, RB_PASS_KEYWORDS);
}

/* Checks whether anything still refers to a stream that its body has left open. If nothing does, a collection has freed the
 * stream and so completed the response: then runs the deferred work of the response. */
static void look_for_stream(Context *context) {
    const uint64_t stream = NUM2ULL(rb_ary_shift(context->streams));
    VALUE record = rb_ary_shift(context->streams);
    context->looks = RARRAY_LEN(context->streams) > 0;
    /* The stream may have become an old object, so the second collection is a full one. */
    for (int look = 0; look < 2 && !was_dropped(stream); look++) {
        deferred_wipe_stack();
        failure_guard("the garbage collection failed", Qnil, collect_for_stream, look ? Qtrue : Qfalse);
    }
    if (was_dropped(stream))
        deferred_run_record(context, record);
    RB_GC_GUARD(record);
}

uint32_t deferred_run(void *pointer) {
    Context *context = (Context *)pointer;
    while (RB_UNLIKELY(context->looks))
        look_for_stream(context);
    while (RARRAY_LEN(context->deferred) > 0)
        deferred_run_record(context, rb_ary_shift(context->deferred));
    /* While requests wait, work between requests is postponed until the end of a request after which no other waits. */
    if (between.due && nobody_waits(context))
        work_between(context);
    between.due = false;
    app_metrics_report_collections();
    return deferred_next(context);
}
