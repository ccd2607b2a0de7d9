/* fibers.c - requests in fibers (--fibers): each runs in a fiber of its own under Oribi::Scheduler, on the worker's thread.
 * While all fibers wait, the lane waits in the scheduler, for which its descriptor is one more.
 *
 * A fiber has a stack of its own, on which its Call is. No frame of the server is on that stack while the fiber waits: the
 * scheduler switches fibers only in Ruby code, which the functions of this file call protected.
 */
#include "ruby_host.h"
#include <ruby/fiber/scheduler.h>
#include <time.h>

static ID id_fiber, id_come_round, id_watch, id_end_wait, id_gone, id_scheduler_of_worker;

/* Whether apps have deadlines. */
static bool has_deadlines;

/* Whether the scheduler is that of async. */
static bool is_async;

/* The milliseconds between the moment in which the edge begins to count the time of a request and that in which its fiber begins: an
 * estimate that is large enough for a busy machine. */
#define CLOCKS_DIFFER 100

/* The descriptor that the scheduler watches for the lane; -1 for none. */
static int watched = -1;

/* ---- The scheduler ------------------------------------------------------------------------------------------------------ */

typedef struct {
    VALUE fiber, value;
    int state;
} Continuation;

static VALUE transfer(VALUE argument) {
    const Continuation *continuation = (const Continuation *)argument;
    return rb_fiber_transfer(continuation->fiber, 1, &continuation->value);
}

/* The server calls this. */
static void transfer_protected(void *argument) {
    Continuation *continuation = (Continuation *)argument;
    rb_protect(transfer, (VALUE)argument, &continuation->state);
}

/* continue(fiber, value): runs a fiber until it waits or ends. */
static VALUE scheduler_continue(VALUE self, VALUE fiber, VALUE value) {
    Context *context = context_own();
    const VALUE outer = context_outer_of(fiber);
    const Call *call = context_call_of(outer);
    Continuation continuation = {fiber, value, 0};
    if (!context)
        return transfer((VALUE)&continuation);
    RB_OBJ_WRITE(context->self, &context->running, outer);
    if (call && has_deadlines && !call->cancellation)
        oribi_resume(call->lane, call->exchange, deadline_interrupt, context, transfer_protected, &continuation);
    else
        transfer_protected(&continuation);
    context->running = Qfalse;
    if (continuation.state)
        rb_jump_tag(continuation.state);
    return Qnil;
}

/* obey: see deadline_obey(). */
static VALUE scheduler_obey(VALUE self) {
    deadline_obey();
    return Qnil;
}

/* nest: returns the fiber in which the calling one does a part, or nil. The calling one belongs to that fiber from now on. */
static VALUE scheduler_nest(VALUE self) {
    const Context *context = context_own();
    const VALUE fiber = rb_fiber_current();
    if (!context || !context->running || context->running == fiber
        || (context_has_outer(fiber) && context_outer_of(fiber) == fiber))
        return Qnil;
    context_set_outer_of(fiber, context->running);
    return context->running;
}

/* stand_alone(fiber): the fiber belongs to none, although one begins it. */
static VALUE scheduler_stand_alone(VALUE self, VALUE fiber) {
    context_set_outer_of(fiber, fiber);
    return Qnil;
}

void fibers_define(void) {
    VALUE class;
    id_fiber = rb_intern("fiber");
    id_come_round = rb_intern("come_round");
    id_watch = rb_intern("watch");
    id_end_wait = rb_intern("end_wait");
    id_gone = rb_intern("gone");
    id_scheduler_of_worker = rb_intern("of_worker");
    rb_gc_register_address(&server.scheduler);
    class = rb_define_class_under(oribi_module, "Scheduler", rb_cObject);
    rb_define_private_method(class, "continue", scheduler_continue, 2);
    rb_define_private_method(class, "obey", scheduler_obey, 0);
    rb_define_private_method(class, "nest", scheduler_nest, 0);
    rb_define_private_method(class, "stand_alone", scheduler_stand_alone, 1);
}

static VALUE set_scheduler(VALUE unused) {
    const VALUE own = server.own_scheduler ? Qtrue : Qfalse, class = rb_const_get(oribi_module, rb_intern("Scheduler"));
    server.scheduler = rb_funcall(class, id_scheduler_of_worker, 1, own);
    is_async = !RTEST(rb_obj_is_kind_of(server.scheduler, class));
    return rb_fiber_scheduler_set(server.scheduler);
}

void fibers_begin(void *pointer, oribi_lane *lane) {
    Context *context = (Context *)pointer;
    context->lane = lane;
    threads_have_lane_now(true);
    room_open(lane);
    /* The lane's descriptor may have the number of that of the lane before. */
    watched = -1;
    has_deadlines = oribi_has_deadlines(lane) != 0;
    RB_OBJ_WRITE(context->self, &context->root, rb_fiber_current());
    if (!server.scheduler)
        failure_guard("fibers cannot be scheduled", Qnil, set_scheduler, Qnil);
}

void fibers_leave(void *pointer) {
    threads_have_lane_now(false);
    room_close();
    context_leave(pointer);
}

/* ---- Requests ----------------------------------------------------------------------------------------------------------- */

/* A request on its way into its fiber. */
typedef struct {
    Call call; /* copied */
    bool has_fiber;
    Call *begun; /* the call of the fiber; NULL before, and when the fiber has ended */
} Start;

static VALUE let_others_run(VALUE unused) {
    rb_fiber_scheduler_kernel_sleep(server.scheduler, INT2FIX(0));
    return Qnil;
}

/* Runs the deferred work of a request in its fiber, after its response has left. */
static VALUE finish(VALUE argument) {
    Call *call = (Call *)argument;
    VALUE record;
    deferred_note(call);
    if (RARRAY_LEN(call->context->deferred) == 0)
        return Qnil;
    record = rb_ary_pop(call->context->deferred);
    let_others_run(Qnil);
    deferred_run_record(call->context, record);
    RB_GC_GUARD(record);
    return Qnil;
}

static VALUE run_in_fiber(RB_BLOCK_CALL_FUNC_ARGLIST(unused, argument)) {
    Start *start = (Start *)argument;
    Call call = start->call, **link;
    Context *context = call.context;
    start->has_fiber = true;
    head_prepare(&call.head);
    call.fiber = rb_fiber_current();
    call.start = start;
    call.next = context->calls;
    context->calls = &call;
    context_set_call_of(call.fiber, &call);
    if (is_async)
        context_let_inherit(call.fiber);
    RB_OBJ_WRITE(context->self, &context->running, call.fiber);
    start->begun = &call;
    call_perform(&call);
    /* Nothing is sent any more, and no order counts. */
    call.streams = false;
    context_set_call_of(call.fiber, NULL);
    if (context->due)
        deadline_forget(context);
    if (call.state != CALL_KEPT)
        failure_guard("the work after the response failed", call.environment, finish, (VALUE)&call);
    for (link = &context->calls; *link != &call; link = &(*link)->next) {
    }
    *link = call.next;
    if (call.start)
        ((Start *)call.start)->begun = NULL;
    app_metrics_report_collections();
    RB_GC_GUARD(call.ticket);
    /* Another fiber gets this stack. */
    if (context->looks)
        deferred_wipe_stack();
    return Qnil;
}

static VALUE start_fiber(VALUE argument) {
    return rb_block_call(server.scheduler, id_fiber, 0, NULL, run_in_fiber, argument);
}

/* Returns the flags that tell the server what to do next. `result` is that of the code that a callback has run. */
static uint32_t next_step(Context *context, GuardResult result) {
    if (result == GUARD_EXITED)
        context->retiring = true;
    return deferred_next(context);
}

uint32_t fibers_answer(void *pointer, oribi_lane *lane, oribi_exchange exchange, const oribi_request *request) {
    Context *context = (Context *)pointer;
    Start start = {.call = call_new(context, lane, exchange, request), .begun = NULL};
    GuardResult result;
    start.call.due = deadline_after(server.request_timeout ? (int64_t)server.request_timeout : -1);
    context->lane = lane;
    result = failure_guard("the fiber of a request failed", Qnil, start_fiber, (VALUE)&start);
    context->running = Qfalse;
    if (!start.has_fiber)
        oribi_abandon(lane, exchange);
    if (!start.begun)
        return next_step(context, result);
    start.begun->start = NULL;
    start.begun->request = NULL;
    /* The content is the server's own again. */
    call_detach(start.begun, false);
    return next_step(context, result);
}

/* ---- Between requests --------------------------------------------------------------------------------------------------- */

typedef struct {
    int descriptor;
    int64_t milliseconds;
} Round;

static VALUE come_round(VALUE argument) {
    const Round *round = (const Round *)argument;
    if (round->descriptor != watched) {
        rb_funcall(server.scheduler, id_watch, 1, round->descriptor < 0 ? Qnil : INT2FIX(round->descriptor));
        watched = round->descriptor;
    }
    return rb_funcall(server.scheduler, id_come_round, 1,
                      round->milliseconds < 0 ? Qnil : DBL2NUM((double)round->milliseconds / 1000));
}

uint32_t fibers_run_loop(void *pointer, int descriptor, int64_t milliseconds) {
    Context *context = (Context *)pointer;
    const Round round = {descriptor, milliseconds};
    GuardResult result;
    room_attend();
    result = failure_guard("a fiber failed", Qnil, come_round, (VALUE)&round);
    context->running = Qfalse;
    return next_step(context, result);
}

/* Whether the app waits in vain: its client has got a part of the response and has gone, or the request's time is over. */
static bool is_in_vain(const Call *call, uint64_t soon) {
    return (call->streams || (call->state == CALL_OPEN && call->due <= soon)) && oribi_has_room(call->lane, call->exchange) < 0;
}

static VALUE cancel_those_in_vain(VALUE self) {
    Context *context = (Context *)RTYPEDDATA_DATA(self);
    /* The edge, whose order this is, has begun to count a little earlier. */
    const uint64_t soon = deadline_after(CLOCKS_DIFFER);
    const VALUE fibers = rb_ary_new();
    for (Call *call = context->calls; call; call = call->next) {
        if (call->cancellation || !is_in_vain(call, soon))
            continue;
        call->cancellation = call->state == CALL_OPEN
                                 ? rb_exc_new_cstr(request_timeout, REQUEST_TIMEOUT_TEXT)
                                 : rb_funcall(server.scheduler, id_gone, 0);
        rb_ary_push(fibers, call->fiber);
        rb_ary_push(fibers, call->cancellation);
    }
    for (long i = 0; i < RARRAY_LEN(fibers); i += 2)
        rb_funcall(server.scheduler, id_end_wait, 2, RARRAY_AREF(fibers, i), RARRAY_AREF(fibers, i + 1));
    RB_GC_GUARD(self);
    return Qnil;
}

uint32_t fibers_attend(void *pointer) {
    Context *context = (Context *)pointer;
    room_attend();
    if (!context->calls)
        return deferred_next(context);
    return next_step(context, failure_guard("fibers cannot be cancelled", Qnil, cancel_those_in_vain, context->self));
}

/* Lets the fibers finish their work after the responses. The server kills the process when its patience is over. */
void fibers_close(void *pointer) {
    const Context *context = (const Context *)pointer;
    VALUE self = context->self;
    /* The lane and its descriptor have gone. */
    const Round round = {-1, -1};
    while (context->calls && !is_stray()) {
        if (failure_guard("a fiber failed", Qnil, come_round, (VALUE)&round) == GUARD_EXITED)
            break;
    }
    context_close(pointer);
    RB_GC_GUARD(self);
}
