/* failure.c - handles exceptions and other jumps out of an app's code. */
#include "ruby_host.h"
#include <stdarg.h>
#include <stdio.h>

static VALUE environment_text(VALUE environment, const char *name) {
    VALUE value = Qnil;
    if (!NIL_P(environment))
        value = rb_hash_lookup(environment, rb_str_new_cstr(name));
    return RB_TYPE_P(value, T_STRING) ? value : Qnil;
}

/* "GET /path: ", or nothing. The path is that of the target as sent, without its query, which may contain secrets. */
VALUE failure_line(VALUE environment) {
    VALUE method = environment_text(environment, "REQUEST_METHOD"), target = environment_text(environment, "REQUEST_URI");
    VALUE line = rb_str_new(NULL, 0);
    if (!NIL_P(method) && !NIL_P(target)) {
        const char *path = RSTRING_PTR(target);
        const char *query = memchr(path, '?', (size_t)RSTRING_LEN(target));
        rb_str_cat(line, RSTRING_PTR(method), RSTRING_LEN(method));
        rb_str_cat(line, " ", 1);
        rb_str_cat(line, path, query ? query - path : RSTRING_LEN(target));
        rb_str_cat(line, ": ", 2);
        RB_GC_GUARD(method);
        RB_GC_GUARD(target);
    }
    return line;
}

void failure_write_text(oribi_log_level level, VALUE environment, VALUE text) {
    VALUE line = failure_line(environment);
    rb_str_cat(line, RSTRING_PTR(text), RSTRING_LEN(text));
    oribi_log(level, RSTRING_PTR(line), (size_t)RSTRING_LEN(line));
    RB_GC_GUARD(text);
    RB_GC_GUARD(line);
}

typedef struct {
    VALUE environment;
    const char *text;
    oribi_log_level level;
} Line;

static VALUE write_line(VALUE argument) {
    const Line *line = (const Line *)argument;
    failure_write_text(line->level, line->environment, rb_str_new_cstr(line->text));
    return Qnil;
}

void failure_write(oribi_log_level level, VALUE environment, const char *format, ...) {
    char text[1024];
    Line line = {environment, text, level};
    int state;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    rb_protect(write_line, (VALUE)&line, &state);
    if (state) {
        rb_set_errinfo(Qnil);
        oribi_log(level, text, strlen(text));
    }
}

/* ---- What left protected code ------------------------------------------------------------------------------------------- */

VALUE failure_take_error(void) {
    VALUE error = rb_errinfo();
    rb_set_errinfo(Qnil);
    /* Thread#kill leaves a number. */
    if (RB_FIXNUM_P(error))
        threads_note_killed();
    if (RB_SPECIAL_CONST_P(error) || RB_BUILTIN_TYPE(error) == T_IMEMO || RB_BUILTIN_TYPE(error) == T_NONE)
        return Qnil;
    return RTEST(rb_obj_is_kind_of(error, rb_eException)) ? error : Qnil;
}

typedef struct {
    VALUE environment, error;
    const char *what;
} Report;

static VALUE full_text(VALUE error) {
    VALUE options;
    /* For an error in a response, the backtrace would not show its origin, so only the message is used. */
    if (rb_obj_is_kind_of(error, response_error))
        return rb_funcallv(error, names.message, 0, NULL);
    options = rb_hash_new();
    rb_hash_aset(options, ID2SYM(rb_intern("highlight")), Qfalse);
    rb_hash_aset(options, ID2SYM(rb_intern("order")), ID2SYM(rb_intern("top")));
    return rb_funcallv_kw(error, names.full_message, 1, &options, RB_PASS_KEYWORDS);
}

static VALUE report(VALUE argument) {
    const Report *report = (const Report *)argument;
    VALUE line = failure_line(report->environment);
    VALUE text = full_text(report->error);
    if (report->what) {
        rb_str_cat_cstr(line, report->what);
        rb_str_cat(line, ": ", 2);
    }
    StringValue(text);
    rb_str_cat(line, RSTRING_PTR(text), RSTRING_LEN(text));
    oribi_log(ORIBI_LOG_ERROR, RSTRING_PTR(line), (size_t)RSTRING_LEN(line));
    RB_GC_GUARD(text);
    RB_GC_GUARD(line);
    return Qnil;
}

static VALUE exit_status(VALUE error) {
    return rb_funcall(error, rb_intern("status"), 0);
}

GuardResult failure_log_error(const char *what, VALUE environment, VALUE error, int *status) {
    const Report made = {environment, error, what};
    const char *separator = what ? ": " : "";
    int state;
    if (!what)
        what = "";
    if (NIL_P(error)) {
        failure_write(ORIBI_LOG_ERROR, environment, "%s%sthe code was left by throw or by Thread#kill", what, separator);
        return GUARD_FAILED;
    }
    if (rb_obj_is_kind_of(error, rb_eSystemExit)) {
        VALUE number = rb_protect(exit_status, error, &state);
        const int code = !state && RB_FIXNUM_P(number) ? (int)FIX2INT(number) : 1;
        if (state)
            rb_set_errinfo(Qnil);
        if (status)
            *status = code;
        failure_write(ORIBI_LOG_ERROR, environment, "%s%sexit(%d) was called", what, separator, code);
        return GUARD_EXITED;
    }
    rb_protect(report, (VALUE)&made, &state);
    if (state) {
        rb_set_errinfo(Qnil);
        failure_write(ORIBI_LOG_ERROR, environment, "%s%san exception of class %s", what, separator, rb_obj_classname(error));
    }
    return GUARD_FAILED;
}

GuardResult failure_log(const char *what, VALUE environment, int *status) {
    return failure_log_error(what, environment, failure_take_error(), status);
}

GuardResult failure_guard(const char *what, VALUE environment, VALUE (*function)(VALUE), VALUE argument) {
    int state;
    rb_protect(function, argument, &state);
    if (RB_LIKELY(state == 0))
        return GUARD_FINE;
    if (is_stray())
        stray_end_as_program(state);
    return failure_log(what, environment, NULL);
}
