/* app_metrics.c - Oribi.count and Oribi.observe, and the time of garbage collections. */
#include "ruby_host.h"

typedef int Act(oribi_bytes name, double number, const oribi_field *labels, size_t label_count);

/* ---- What apps count ----------------------------------------------------------------------------------------------------- */

/* Texts of the labels: names and values, in turn. */
typedef struct {
    VALUE texts[2 * ORIBI_MOST_LABELS];
    size_t count;
} Labels;

static VALUE text_of(VALUE value) {
    return rb_str_conv_enc(rb_obj_as_string(value), NULL, rb_utf8_encoding());
}

static int take_label(VALUE name, VALUE value, VALUE argument) {
    Labels *labels = (Labels *)argument;
    if (labels->count == 2 * ORIBI_MOST_LABELS)
        rb_raise(rb_eArgError, "a figure has at most %d labels", ORIBI_MOST_LABELS);
    labels->texts[labels->count++] = text_of(name);
    labels->texts[labels->count++] = text_of(value);
    return ST_CONTINUE;
}

static oribi_bytes bytes_of(VALUE text) {
    return (oribi_bytes){RSTRING_PTR(text), (size_t)RSTRING_LEN(text)};
}

static VALUE add(Act *act, VALUE name, VALUE number, VALUE given) {
    Labels labels = {.count = 0};
    oribi_field fields[ORIBI_MOST_LABELS];
    const double amount = NUM2DBL(number);
    name = text_of(name);
    if (!NIL_P(given))
        rb_hash_foreach(given, take_label, (VALUE)&labels);
    for (size_t i = 0; i < labels.count; i += 2) {
        fields[i / 2].name = bytes_of(labels.texts[i]);
        fields[i / 2].value = bytes_of(labels.texts[i + 1]);
    }
    if (!act(bytes_of(name), amount, fields, labels.count / 2))
        rb_exc_raise(rb_exc_new_str(rb_eArgError, rb_utf8_str_new_cstr(oribi_last_error())));
    RB_GC_GUARD(name);
    for (size_t i = 0; i < labels.count; i++)
        RB_GC_GUARD(labels.texts[i]);
    return Qnil;
}

/* Oribi.count(name, amount = 1, label: value, ...) */
static VALUE count(int argc, VALUE *argv, VALUE self) {
    VALUE name, amount, labels;
    rb_scan_args(argc, argv, "11:", &name, &amount, &labels);
    return oribi_has_figures() ? add(oribi_count, name, NIL_P(amount) ? INT2FIX(1) : amount, labels) : Qnil;
}

/* Oribi.observe(name, value, label: value, ...) */
static VALUE observe(int argc, VALUE *argv, VALUE self) {
    VALUE name, value, labels;
    rb_scan_args(argc, argv, "2:", &name, &value, &labels);
    return oribi_has_figures() ? add(oribi_observe, name, value, labels) : Qnil;
}

void app_metrics_define(void) {
    rb_define_singleton_method(oribi_module, "count", count, -1);
    rb_define_singleton_method(oribi_module, "observe", observe, -1);
}

/* ---- Garbage collection ------------------------------------------------------------------------------------------------ */

bool app_metrics_counted;
size_t app_metrics_collections;
static uint64_t collecting;

/* Returns the time that Ruby has spent on garbage collection, in nanoseconds. A worker inherits the time of the process that
 * has loaded its app, so only differences count. */
static VALUE total_time(VALUE unused) {
    return ULL2NUM(NUM2ULL(rb_funcallv(rb_mGC, rb_intern("total_time"), 0, NULL)));
}

static uint64_t time_so_far(void) {
    int state;
    VALUE time = rb_protect(total_time, Qnil, &state);
    if (state) {
        rb_set_errinfo(Qnil);
        return collecting;
    }
    return NUM2ULL(time);
}

void app_metrics_begin(void) {
    app_metrics_counted = oribi_has_figures();
    app_metrics_collections = rb_gc_count();
    collecting = app_metrics_counted ? time_so_far() : 0;
}

void app_metrics_note_collections(void) {
    const size_t collections = rb_gc_count();
    const uint64_t time = time_so_far();
    oribi_note_collections(collections - app_metrics_collections, time > collecting ? time - collecting : 0);
    app_metrics_collections = collections;
    collecting = time;
}
