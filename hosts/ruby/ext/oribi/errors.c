/* errors.c - rack.errors of a request that came through a web server: writes go to the error log of that web server.
 *
 * Each write is passed on separately. Writes after the request has been answered and writes from a forked process cannot be
 * passed on: they go to $stderr, like rack.errors of other requests.
 */
#include "ruby_host.h"

typedef struct {
    oribi_lane *lane;
    oribi_exchange exchange;
    unsigned forks;
    VALUE context; /* Context.self: the lane lives as long as it does */
} Errors;

static VALUE errors_class;

static void errors_mark(void *pointer) {
    rb_gc_mark(((const Errors *)pointer)->context);
}

static size_t errors_size(const void *pointer) {
    return sizeof(Errors);
}

static const rb_data_type_t errors_type = {
    .wrap_struct_name = "Oribi::Errors",
    .function = {.dmark = errors_mark, .dfree = RUBY_TYPED_DEFAULT_FREE, .dsize = errors_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

VALUE errors_new(const Call *call) {
    Errors *errors;
    VALUE self = TypedData_Make_Struct(errors_class, Errors, &errors_type, errors);
    errors->lane = call->lane;
    errors->exchange = call->exchange;
    errors->forks = call->context->forks;
    RB_OBJ_WRITE(self, &errors->context, call->context->self);
    return self;
}

static bool report(const Errors *errors, VALUE text) {
    return errors->forks == fork_count && threads_have_lane()
           && oribi_report(errors->lane, errors->exchange, RSTRING_PTR(text), (size_t)RSTRING_LEN(text));
}

/* write(*values): returns the number of bytes, like IO#write. */
static VALUE errors_write(int argc, VALUE *argv, VALUE self) {
    const Errors *errors = (const Errors *)rb_check_typeddata(self, &errors_type);
    VALUE text = rb_str_new(NULL, 0);
    for (int i = 0; i < argc; i++) {
        VALUE part = rb_obj_as_string(argv[i]);
        rb_str_cat(text, RSTRING_PTR(part), RSTRING_LEN(part));
        RB_GC_GUARD(part);
    }
    if (RSTRING_LEN(text) > 0 && !report(errors, text))
        rb_io_write(rb_stderr, text);
    return LONG2NUM(RSTRING_LEN(text));
}

/* Nothing is buffered here. */
static VALUE errors_flush(VALUE self) {
    return self;
}

static VALUE errors_fsync(VALUE self) {
    return INT2FIX(0);
}

static VALUE errors_is_sync(VALUE self) {
    return Qtrue;
}

static VALUE errors_set_sync(VALUE self, VALUE value) {
    return value;
}

static VALUE errors_is_terminal(VALUE self) {
    return Qfalse;
}

/* Does nothing: Rack forbids apps to call this method, but loggers may. */
static VALUE errors_close(VALUE self) {
    return Qnil;
}

void errors_define(void) {
    errors_class = rb_define_class_under(oribi_module, "Errors", rb_cObject);
    rb_gc_register_mark_object(errors_class);
    rb_undef_alloc_func(errors_class);
    rb_undef_method(CLASS_OF(errors_class), "new");
    rb_define_method(errors_class, "write", errors_write, -1);
    rb_define_method(errors_class, "puts", rb_io_puts, -1);
    rb_define_method(errors_class, "print", rb_io_print, -1);
    rb_define_method(errors_class, "printf", rb_io_printf, -1);
    rb_define_method(errors_class, "<<", rb_io_addstr, 1);
    rb_define_method(errors_class, "flush", errors_flush, 0);
    rb_define_method(errors_class, "fsync", errors_fsync, 0);
    rb_define_method(errors_class, "sync", errors_is_sync, 0);
    rb_define_method(errors_class, "sync=", errors_set_sync, 1);
    rb_define_method(errors_class, "tty?", errors_is_terminal, 0);
    rb_define_method(errors_class, "isatty", errors_is_terminal, 0);
    rb_define_method(errors_class, "close", errors_close, 0);
}
