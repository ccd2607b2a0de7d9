/* stray.c - a process that the app has forked, and in which the app's code has returned to the server: the process must not act
 * as the worker. */
#include "ruby_host.h"
#include <unistd.h>

/* The value of fork_count in this process, unless the app has forked it. */
static unsigned own_forks;

void stray_watch(void) {
    own_forks = fork_count;
}

bool is_stray(void) {
    return own_forks != fork_count;
}

VALUE stray_flush(VALUE unused) {
    rb_funcallv(rb_stdout, names.flush, 0, NULL);
    rb_funcallv(rb_stderr, names.flush, 0, NULL);
    return Qnil;
}

void stray_end(int status) {
    int state;
    rb_protect(stray_flush, Qnil, &state);
    _exit(status);
}

void stray_end_as_program(int state) {
    exit(ruby_cleanup(state));
}
