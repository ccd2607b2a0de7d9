/* settings.c - Oribi::Settings: the server's settings, collected one by one. */
#include "ruby_host.h"

static VALUE setting_error;

static void settings_free(void *pointer) {
    /* A worker inherits the object, but the server in the worker still reads the settings after Ruby has freed the object. */
    if (fork_count == 0)
        oribi_config_free((oribi_config *)pointer);
}

static const rb_data_type_t settings_type = {
    .wrap_struct_name = "Oribi::Settings",
    .function = {.dfree = settings_free},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE settings_allocate(VALUE class) {
    return TypedData_Wrap_Struct(class, &settings_type, oribi_config_new());
}

const oribi_config *settings_of(VALUE object) {
    return (const oribi_config *)rb_check_typeddata(object, &settings_type);
}

/* The error message of the server. */
static VALUE last_error(void) {
    return rb_utf8_str_new_cstr(oribi_last_error());
}

/* set(name, value, origin): returns nil, or a message about an unknown name. */
static VALUE settings_set(VALUE self, VALUE name, VALUE value, VALUE origin) {
    oribi_config *config = (oribi_config *)rb_check_typeddata(self, &settings_type);
    switch (oribi_config_set(config, StringValueCStr(name), StringValueCStr(value), StringValueCStr(origin))) {
    case ORIBI_SETTING_OK:
        return Qnil;
    case ORIBI_SETTING_UNKNOWN:
        return last_error();
    case ORIBI_SETTING_BAD:
        break;
    }
    rb_exc_raise(rb_exc_new_str(setting_error, last_error()));
}

/* Oribi.masked(text): the text without what may be secret in it. */
static VALUE mask(VALUE self, VALUE text) {
    return rb_utf8_str_new_cstr(oribi_masked(StringValueCStr(text)));
}

void settings_define(void) {
    VALUE class = rb_define_class_under(oribi_module, "Settings", rb_cObject);
    setting_error = rb_define_class_under(oribi_module, "SettingError", rb_eArgError);
    rb_gc_register_mark_object(setting_error);
    rb_define_alloc_func(class, settings_allocate);
    rb_define_method(class, "set", settings_set, 3);
    rb_define_singleton_method(oribi_module, "masked", mask, 1);
}
