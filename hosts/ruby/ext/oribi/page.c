/* page.c - the page that a developer sees when an app has raised an exception. */
#include "ruby_host.h"

static void append_escaped(VALUE page, VALUE text) {
    const char *at, *end;
    if (!RB_TYPE_P(text, T_STRING))
        text = rb_obj_as_string(text);
    at = RSTRING_PTR(text);
    end = at + RSTRING_LEN(text);
    for (const char *plain = at; at <= end; at++) {
        const char *entity = NULL;
        switch (at < end ? *at : '\0') {
        case '&':
            entity = "&amp;";
            break;
        case '<':
            entity = "&lt;";
            break;
        case '>':
            entity = "&gt;";
            break;
        case '"':
            entity = "&quot;";
            break;
        case '\'':
            entity = "&#39;";
            break;
        default:
            if (at < end)
                continue;
        }
        rb_str_cat(page, plain, at - plain);
        if (entity)
            rb_str_cat_cstr(page, entity);
        plain = at + 1;
    }
    RB_GC_GUARD(text);
}

VALUE page_text(VALUE error, VALUE environment) {
    VALUE page = rb_str_new_cstr("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                                 "<title>500 Internal Server Error</title></head>\n"
                                 "<body><h1>500 Internal Server Error</h1>\n<p><b>");
    VALUE target = rb_hash_lookup(environment, rb_str_new_cstr("REQUEST_URI"));
    VALUE backtrace = rb_funcallv(error, names.backtrace, 0, NULL);
    append_escaped(page, rb_class_name(CLASS_OF(error)));
    rb_str_cat_cstr(page, "</b>: ");
    append_escaped(page, rb_funcallv(error, names.message, 0, NULL));
    rb_str_cat_cstr(page, "</p>\n<p>");
    append_escaped(page, rb_hash_lookup(environment, rb_str_new_cstr("REQUEST_METHOD")));
    rb_str_cat_cstr(page, " ");
    append_escaped(page, target);
    rb_str_cat_cstr(page, "</p>\n");
    if (RB_TYPE_P(backtrace, T_ARRAY) && !rb_obj_is_kind_of(error, response_error)) {
        rb_str_cat_cstr(page, "<pre>");
        for (long i = 0; i < RARRAY_LEN(backtrace); i++) {
            append_escaped(page, RARRAY_AREF(backtrace, i));
            rb_str_cat_cstr(page, "\n");
        }
        rb_str_cat_cstr(page, "</pre>\n");
    }
    return rb_str_cat_cstr(page, "<p>This page is shown in development only.</p></body></html>\n");
}
