/* fork.c - forks: workers, and children of apps. */
#include "ruby_host.h"
#include <pthread.h>

unsigned fork_count;

/* Whether the server is forking a worker, which keeps the server's signal handlers. */
static bool makes_worker;

/* Runs in each child. An app's children get Ruby's own signal handlers back. */
static void begin_child(void) {
    fork_count++;
    if (!makes_worker)
        signals_leave_server();
}

void fork_watch(void) {
    static bool watching;
    if (!watching)
        pthread_atfork(NULL, NULL, begin_child);
    watching = true;
}

static VALUE call_fork(VALUE unused) {
    (void)unused;
    return rb_funcall(rb_mProcess, rb_intern("fork"), 0);
}

static VALUE describe(VALUE error) {
    return rb_sprintf("Process.fork failed: %" PRIsVALUE, error);
}

/* Calls Process.fork, so that Ruby removes the other threads in the child, and hooks of libraries (such as Active Record)
 * run. */
int fork_by_ruby(void *data) {
    int state = 0;
    VALUE pid;
    (void)data;
    makes_worker = true;
    pid = rb_protect(call_fork, Qnil, &state);
    makes_worker = false;
    if (state) {
        VALUE text = rb_protect(describe, rb_errinfo(), &state);
        rb_set_errinfo(Qnil);
        if (state == 0)
            oribi_log(ORIBI_LOG_ERROR, RSTRING_PTR(text), (size_t)RSTRING_LEN(text));
        RB_GC_GUARD(text);
        return -1;
    }
    return NIL_P(pid) ? 0 : NUM2INT(pid);
}
