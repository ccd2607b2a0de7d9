/* process.c - the stages in the life of the processes, and the hooks for them. */
#include "ruby_host.h"
#include <signal.h>
#include <unistd.h>

static pid_t worker_process;

typedef struct {
    VALUE callable;
    uint32_t worker;
} Hook;

static VALUE call_hook(VALUE argument) {
    const Hook *hook = (const Hook *)argument;
    VALUE worker = UINT2NUM(hook->worker);
    return rb_funcallv(hook->callable, names.call, hook->worker > 0, &worker);
}

/* Calls the hooks of a moment one after the other; logs failures. */
static void run_hooks(const char *moment, uint32_t worker) {
    VALUE hooks = rb_hash_lookup(server.hooks, ID2SYM(rb_intern(moment)));
    char what[64];
    snprintf(what, sizeof what, "a hook of %s failed", moment);
    if (!RB_TYPE_P(hooks, T_ARRAY))
        return;
    for (long i = 0; i < RARRAY_LEN(hooks); i++) {
        const Hook hook = {RARRAY_AREF(hooks, i), worker};
        int state, status = 0;
        rb_protect(call_hook, (VALUE)&hook, &state);
        if (is_stray())
            state ? stray_end_as_program(state) : stray_end(0);
        if (state && failure_log(what, Qnil, &status) == GUARD_EXITED)
            stray_end(status);
    }
}

static void flush_output(void) {
    failure_guard("standard output cannot be flushed", Qnil, stray_flush, Qnil);
}

void process_before_fork(void *data, uint32_t worker) {
    run_hooks("before_fork", worker);
    /* Flushes buffered output before the fork; otherwise the child would write it again. */
    flush_output();
}

void process_worker_started(void *data, uint32_t worker) {
    server.worker = worker;
    worker_process = getpid();
    stray_watch();
    signals_know_servers();
    deadline_begin();
    deferred_begin();
    app_metrics_begin();
    run_hooks("after_fork", worker);
}

static VALUE show_title(VALUE argument) {
    const oribi_bytes *const title = (const oribi_bytes *)argument;
    return rb_funcall(rb_mProcess, rb_intern("setproctitle"), 1, rb_str_new(title->data, (long)title->size));
}

static VALUE signal_number(VALUE error) {
    return rb_funcall(error, rb_intern("signo"), 0);
}

void process_set_title(void *data, const char *title, size_t size) {
    const oribi_bytes text = {title, size};
    int state;
    rb_protect(show_title, (VALUE)&text, &state);
    if (!state)
        return;
    VALUE error = rb_errinfo();
    if (!rb_obj_is_kind_of(error, rb_eSignal)) {
        failure_log("the title of the process cannot be set", Qnil, NULL);
        return;
    }
    /* A signal, such as the TERM that ends a reload, has arrived at this moment, and Ruby has raised it here as an exception.
     * The signal is not meant for this function, so it is sent again. */
    rb_set_errinfo(Qnil);
    VALUE number = rb_protect(signal_number, error, &state);
    if (state)
        rb_set_errinfo(Qnil);
    else
        kill(getpid(), NUM2INT(number));
}

void process_worker_stopping(void *data, uint32_t worker) {
    run_hooks("worker_stopping", worker);
    app_metrics_report_collections();
}

static VALUE end_waits(VALUE unused) {
    return rb_funcall(server.scheduler, rb_intern("end_waits"), 0);
}

/* Ends the process as a Ruby program ends: runs at_exit handlers, including those that were set while the app was loaded, then
 * finalizers, and flushes buffers. The exit status that the handlers set is ignored. */
void process_end(void *data, int status) {
    if (getpid() != worker_process)
        stray_end(status);
    if (server.scheduler && !context_own())
        failure_guard("fibers cannot be ended", Qnil, end_waits, Qnil);
    ruby_cleanup(0);
    exit(status);
}

void process_server_ready(void *data) {
    run_hooks("server_ready", 0);
}
