/* shared.c - the data that all files use: names of methods, the module and its exceptions, the arguments of Oribi.serve. */
#include "ruby_host.h"

Names names;
VALUE oribi_module;
VALUE response_error;
VALUE request_timeout;
Server server;

static void name_methods(void) {
    names.call = rb_intern("call");
    names.each = rb_intern("each");
    names.close = rb_intern("close");
    names.to_path = rb_intern("to_path");
    names.to_ary = rb_intern("to_ary");
    names.body = rb_intern("@body");
    names.to_i = rb_intern("to_i");
    names.full_message = rb_intern("full_message");
    names.backtrace = rb_intern("backtrace");
    names.message = rb_intern("message");
    names.run = rb_intern("run");
    names.flush = rb_intern("flush");
    names.read = rb_intern("read");
    names.trailers = rb_intern("trailers");
}

void shared_define(void) {
    name_methods();
    server.app = server.hooks = server.error_handler = Qnil;
    rb_gc_register_address(&server.app);
    rb_gc_register_address(&server.hooks);
    rb_gc_register_address(&server.error_handler);
    oribi_module = rb_define_module("Oribi");
    rb_gc_register_mark_object(oribi_module);
    response_error = rb_define_class_under(oribi_module, "ResponseError", rb_eStandardError);
    rb_gc_register_mark_object(response_error);
    request_timeout = rb_define_class_under(oribi_module, "RequestTimeout", rb_eException);
    rb_gc_register_mark_object(request_timeout);
}
