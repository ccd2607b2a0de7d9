/* io_bound.c - requests that only wait: the app marks such a request, and another thread of the worker may run an app meanwhile,
 * beyond --threads (--max-io-threads).
 */
#include "ruby_host.h"

static VALUE class;

static void io_bound_mark(void *pointer) {
    rb_gc_mark(((const Context *)pointer)->self);
}

static const rb_data_type_t io_bound_type = {
    .wrap_struct_name = "Oribi::IoBound",
    .function = {.dmark = io_bound_mark},
};

VALUE io_bound_of(Context *context) {
    if (context->io_bound == Qfalse)
        RB_OBJ_WRITE(context->self, &context->io_bound, rb_obj_freeze(TypedData_Wrap_Struct(class, &io_bound_type, context)));
    return context->io_bound;
}

/* env["oribi.io_bound"].call, on any thread of the worker, because a thread of the app may do the work of a request. Returns whether
 * the request is marked: not after its end, and not in a child that the app has forked. */
static VALUE io_bound_call(VALUE self) {
    Context *const context = rb_check_typeddata(self, &io_bound_type);
    if (!context->call || context->forks != fork_count)
        return Qfalse;
    if (!(context->due & DUE_MARK) && threads_mark_waiting())
        context->due |= DUE_MARK;
    return context->due & DUE_MARK ? Qtrue : Qfalse;
}

void io_bound_end(Context *context) {
    context->due &= (uint8_t)~DUE_MARK;
    threads_unmark_waiting();
}

void io_bound_define(void) {
    class = rb_define_class_under(oribi_module, "IoBound", rb_cObject);
    rb_gc_register_mark_object(class);
    rb_undef_alloc_func(class);
    rb_undef_method(CLASS_OF(class), "new");
    rb_define_method(class, "call", io_bound_call, 0);
}
