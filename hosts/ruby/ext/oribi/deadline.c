/* deadline.c - requests that take too long: logs their backtraces, interrupts them, and lets the app change its deadline.
 *
 * The server reports in a signal handler that the request of a thread has reached a deadline. Ruby must not be called there. So
 * the handler notes the order in the thread's context, and sends the main thread a signal for which Ruby has a trap. Ruby runs
 * the trap on its main thread, even while that thread waits. Ruby code may examine and interrupt any Ruby thread: the trap logs
 * the backtrace of the thread that answers, and interrupts that thread by Thread#raise. So a sleep, a read, a regular
 * expression, and a wait in C that Ruby can end are interrupted, and Thread.handle_interrupt is respected. C code that keeps
 * Ruby's lock, or that waits without a way to end the wait, is not interrupted: that is left to --request-kill.
 *
 * If a request ends before its thread has received the exception, the exception must not hit the next request of the thread. So
 * deadline_forget() makes the thread receive it, with the lock held, before the server can hand out another request.
 */
#include "ruby_host.h"
#include <errno.h>

/* The longest time that the server's clocks can add, in seconds: a hundred years. */
#define LONGEST_SECONDS 3153600000.0

/* The frames of the trap itself: Thread.handle_interrupt. */
#define TRAP_FRAMES 1

static ID id_handle_interrupt, id_pending_interrupt, id_raise;

/* {Object => :never} */
static VALUE all_wait;

/* ---- In the signal handler ----------------------------------------------------------------------------------------------- */

void deadline_interrupt(void *pointer, oribi_exchange exchange, oribi_order kind, uint64_t milliseconds) {
    Context *context = (Context *)pointer;
    Order *order = kind == ORIBI_ORDER_WARN ? &context->warning : &context->interruption;
    const int saved = errno;
    atomic_store_explicit(&order->exchange, exchange, memory_order_relaxed);
    atomic_store_explicit(&order->milliseconds, milliseconds, memory_order_relaxed);
    atomic_store_explicit(&order->given, true, memory_order_release);
    messenger_call_main();
    errno = saved;
}

/* ---- In the trap -------------------------------------------------------------------------------------------------------- */

/* Takes the order if it was given for the request that the context is answering. */
static bool take(Order *order, const Context *context) {
    const Call *call = context_call(context);
    return atomic_exchange_explicit(&order->given, false, memory_order_acquire) && call
           && call->exchange == atomic_load_explicit(&order->exchange, memory_order_relaxed);
}

typedef struct {
    const Context *context;
    const Order *order;
    const char *what;
} Report;

static VALUE report(VALUE argument) {
    const Report *report = (const Report *)argument;
    const Call *call = context_call(report->context);
    const double seconds = (double)atomic_load_explicit(&report->order->milliseconds, memory_order_relaxed) / 1000;
    VALUE text = rb_sprintf("the app has run for %g s %s", seconds, report->what);
    VALUE lines = rb_funcallv(report->context->thread, names.backtrace, 0, NULL);
    if (RB_TYPE_P(lines, T_ARRAY)) {
        /* The backtrace of the calling thread begins with the trap and the method `backtrace`. */
        for (long i = report->context == context_own() ? TRAP_FRAMES + 1 : 0; i < RARRAY_LEN(lines); i++)
            rb_str_append(rb_str_cat_cstr(text, "\n\tfrom "), rb_obj_as_string(RARRAY_AREF(lines, i)));
    }
    failure_write_text(ORIBI_LOG_WARN, call ? call->environment : Qnil, text);
    return Qnil;
}

static void log_backtrace(const Context *context, const Order *order, const char *what) {
    const Report made = {context, order, what};
    failure_guard("the backtrace of a request cannot be logged", Qnil, report, (VALUE)&made);
}

static void handle_orders(Context *context) {
    const bool late = take(&context->interruption, context);
    Call *call;
    if (take(&context->warning, context) && !late)
        log_backtrace(context, &context->warning, "and goes on:");
    if (!late)
        return;
    log_backtrace(context, &context->interruption, "and is interrupted:");
    /* Another thread may have run meanwhile and ended its request. */
    call = context_call(context);
    if (!call)
        return;
    call->cancellation = rb_exc_new_cstr(request_timeout, REQUEST_TIMEOUT_TEXT);
    /* The fiber of the request has just begun to wait. */
    if (server.fibers && rb_fiber_current() == context->root) {
        rb_funcall(server.scheduler, rb_intern("end_wait"), 2, context->running, call->cancellation);
        return;
    }
    context->due |= DUE_INTERRUPTION;
    rb_funcall(context->thread, id_raise, 1, call->cancellation);
}

static bool has_order(const Context *context) {
    return atomic_load_explicit(&context->warning.given, memory_order_relaxed)
           || atomic_load_explicit(&context->interruption.given, memory_order_relaxed);
}

/* Returns a context that has an order; NULL if there is none. The context of the calling thread comes last, because its order
 * may raise. */
static Context *next_with_order(void) {
    Context *const own = context_own();
    for (Context *context = context_first(); context; context = context->next)
        if (context != own && has_order(context))
            return context;
    return own && has_order(own) ? own : NULL;
}

static VALUE handle_all_orders(RB_BLOCK_CALL_FUNC_ARGLIST(unused, data)) {
    Context *context;
    tracing_answer_pending(TRAP_FRAMES);
    /* Starts again each time, because other threads may come and go meanwhile. */
    while ((context = next_with_order())) {
        VALUE self = context->self;
        handle_orders(context);
        RB_GC_GUARD(self);
    }
    return Qnil;
}

/* Defers exceptions that other threads have sent to the main thread until all orders are handled. Otherwise Ruby would raise
 * them whenever a method ends; if that happened while a backtrace is made, the app would never get the exception. Ruby raises
 * them when handle_interrupt ends. */
static VALUE on_message(RB_BLOCK_CALL_FUNC_ARGLIST(unused, data)) {
    return rb_block_call(rb_cThread, id_handle_interrupt, 1, &all_wait, handle_all_orders, Qnil);
}

void deadline_obey(void) {
    const Context *const own = context_own();
    if (own && has_order(own))
        on_message(Qnil, Qnil, 0, NULL, Qnil);
}

/* ---- The beginning of a worker ------------------------------------------------------------------------------------------ */

static VALUE set_trap(VALUE unused) {
    VALUE number = INT2FIX(messenger_signal());
    return rb_block_call(rb_mKernel, rb_intern("trap"), 1, &number, on_message, Qnil);
}

void deadline_begin(void) {
    messenger_begin();
    tracing_begin();
    failure_guard("requests that take too long cannot be interrupted", Qnil, set_trap, Qnil);
}

/* ---- What the app sees --------------------------------------------------------------------------------------------------- */

uint64_t deadline_after(int64_t milliseconds) {
    struct timespec now;
    if (milliseconds < 0)
        return UINT64_MAX;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 + (uint64_t)milliseconds;
}

/* env["oribi.deadline"].call(seconds) or .call(nil), on the thread that answers the request. */
static VALUE deadline_call(VALUE self, VALUE seconds) {
    const Context *const own = context_own();
    Call *const call = own ? context_call(own) : NULL;
    int64_t milliseconds = -1;
    if (!NIL_P(seconds)) {
        const double time = NUM2DBL(seconds);
        if (!(time >= 0 && time <= LONGEST_SECONDS))
            rb_raise(rb_eArgError, "a deadline is a number of seconds from now, or nil for none; not %" PRIsVALUE, rb_inspect(seconds));
        milliseconds = (int64_t)(time * 1000);
    }
    if (!call || own->forks != fork_count)
        rb_raise(rb_eThreadError, "the deadline of a request can be moved by the thread that answers it, while it does so");
    oribi_extend_deadline(call->lane, call->exchange, milliseconds);
    call->due = deadline_after(milliseconds);
    return Qnil;
}

VALUE deadline_define(void) {
    VALUE class = rb_define_class_under(oribi_module, "Deadline", rb_cObject);
    rb_gc_register_mark_object(class);
    id_handle_interrupt = rb_intern("handle_interrupt");
    id_pending_interrupt = rb_intern("pending_interrupt?");
    id_raise = rb_intern("raise");
    all_wait = rb_hash_new();
    rb_hash_aset(all_wait, rb_cObject, ID2SYM(rb_intern("never")));
    rb_gc_register_mark_object(rb_obj_freeze(all_wait));
    rb_undef_method(CLASS_OF(class), "new");
    rb_define_method(class, "call", deadline_call, 1);
    return rb_obj_freeze(rb_obj_alloc(class));
}

/* ---- The end of a request ---------------------------------------------------------------------------------------------- */

static VALUE has_pending(VALUE thread) {
    return rb_funcall(thread, id_pending_interrupt, 1, request_timeout);
}

void deadline_forget(Context *context) {
    int state = 0;
    context->due &= (uint8_t)~DUE_INTERRUPTION;
    while (RTEST(rb_protect(has_pending, context->thread, &state)) && threads_take_interrupts()) {
    }
    if (state)
        rb_set_errinfo(Qnil);
}
