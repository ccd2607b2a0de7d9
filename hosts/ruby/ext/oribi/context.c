/* context.c - the data that a lane needs to answer requests, and the threads that use it. */
#include "ruby_host.h"
#include <sys/syscall.h>
#include <unistd.h>

/* The contexts that threads of this process use, linked by `next`. Read and changed with Ruby's lock held. */
static Context *first;

/* The context of the calling thread. */
static _Thread_local Context *own;

static void context_mark(void *pointer) {
    const Context *context = (const Context *)pointer;
    for (unsigned i = 0; i < SHAPES; i++) {
        rb_gc_mark(context->shapes[i].template);
        rb_gc_mark(context->shapes[i].names);
    }
    rb_gc_mark(context->thread);
    rb_gc_mark(context->io_bound);
    rb_gc_mark(context->server_name);
    rb_gc_mark(context->server_port);
    rb_gc_mark(context->remote_address);
    rb_gc_mark(context->deferred);
    rb_gc_mark(context->streams);
    rb_gc_mark(context->running);
    rb_gc_mark(context->root);
    for (const Call *call = context->calls; call; call = call->next)
        rb_gc_mark(call->fiber);
}

static size_t context_size(const void *pointer) {
    return sizeof(Context);
}

static const rb_data_type_t context_type = {
    .wrap_struct_name = "Oribi::Context",
    .function = {.dmark = context_mark, .dfree = RUBY_TYPED_DEFAULT_FREE, .dsize = context_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

static VALUE make(VALUE unused) {
    Context *context;
    /* Without a class, because Ruby code never sees it. */
    VALUE self = TypedData_Make_Struct(0, Context, &context_type, context);
    context->self = self;
    context->forks = fork_count;
    RB_OBJ_WRITE(self, &context->server_name, rb_interned_str("", 0));
    RB_OBJ_WRITE(self, &context->server_port, rb_interned_str("", 0));
    RB_OBJ_WRITE(self, &context->remote_address, rb_interned_str("", 0));
    RB_OBJ_WRITE(self, &context->deferred, rb_ary_new());
    RB_OBJ_WRITE(self, &context->streams, rb_ary_new());
    /* From now on the object lives until context_close. */
    rb_gc_register_address(&context->self);
    return self;
}

void *context_open(void *data, int own) {
    int state;
    VALUE self = rb_protect(make, Qnil, &state);
    if (!state)
        return RTYPEDDATA_DATA(self);
    failure_log("the environment cannot be prepared", Qnil, NULL);
    return NULL;
}

void context_close(void *pointer) {
    Context *context = (Context *)pointer;
    /* Tickets that the app has kept still refer to the object; the last of them frees it. */
    rb_gc_unregister_address(&context->self);
}

void context_enter(void *pointer) {
    Context *context = (Context *)pointer;
    RB_OBJ_WRITE(context->self, &context->thread, rb_thread_current());
    context->kernel_thread = (uint32_t)syscall(SYS_gettid);
    context->next = first;
    first = own = context;
}

void context_leave(void *pointer) {
    Context **link = &first;
    while (*link && *link != pointer)
        link = &(*link)->next;
    if (*link)
        *link = (*link)->next;
    own = NULL;
}

Context *context_first(void) {
    return first;
}

Context *context_own(void) {
    return own;
}

/* A name without @, so that no Ruby code sees it. */
static ID id_call(void) {
    static ID id;
    if (!id)
        id = rb_intern("oribi call");
    return id;
}

static ID id_outer(void) {
    static ID id;
    if (!id)
        id = rb_intern("oribi outer");
    return id;
}

static Call *own_call_of(VALUE fiber) {
    const VALUE address = rb_ivar_get(fiber, id_call());
    return RB_FIXNUM_P(address) ? (Call *)(address & ~(VALUE)RUBY_FIXNUM_FLAG) : NULL;
}

VALUE context_outer_of(VALUE fiber) {
    const VALUE outer = rb_ivar_get(fiber, id_outer());
    return NIL_P(outer) ? fiber : outer;
}

void context_set_outer_of(VALUE fiber, VALUE outer) {
    rb_ivar_set(fiber, id_outer(), outer);
}

bool context_has_outer(VALUE fiber) {
    return !NIL_P(rb_ivar_get(fiber, id_outer()));
}

Call *context_call_of(VALUE fiber) {
    Call *call = own_call_of(fiber);
    return call ? call : own_call_of(context_outer_of(fiber));
}

void context_set_call_of(VALUE fiber, Call *call) {
    /* A Call is aligned, so its address and the flag make a Fixnum. */
    rb_ivar_set(fiber, id_call(), call ? (VALUE)call | RUBY_FIXNUM_FLAG : Qnil);
}

/* Whether fibers inherit their requests. */
static bool inheriting;

/* The name of the request's fiber in the storage of fibers. */
static VALUE inherited_name(void) {
    return ID2SYM(rb_intern("oribi_request"));
}

void context_let_inherit(VALUE fiber) {
    inheriting = true;
    rb_funcall(rb_obj_class(fiber), rb_intern("[]="), 2, inherited_name(), fiber);
}

/* The call of the request in which the calling fiber was made. */
static Call *inherited_call(void) {
    const VALUE fiber = rb_funcall(rb_obj_class(rb_fiber_current()), rb_intern("[]"), 1, inherited_name());
    return NIL_P(fiber) ? NULL : own_call_of(fiber);
}

Call *context_call(const Context *context) {
    if (inheriting)
        return inherited_call();
    return context->running ? context_call_of(context->running) : context->call;
}
