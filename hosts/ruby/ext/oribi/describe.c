/* describe.c - descriptions of values for messages. */
#include "ruby_host.h"

VALUE describe_value(VALUE value) {
    if (NIL_P(value) || value == Qtrue || value == Qfalse)
        return rb_inspect(value);
    if (RB_INTEGER_TYPE_P(value) || RB_SYMBOL_P(value))
        return rb_sprintf("%+" PRIsVALUE, value);
    if (RB_TYPE_P(value, T_STRING))
        return rb_sprintf("the String %+" PRIsVALUE, rb_str_substr(value, 0, 60));
    if (RB_TYPE_P(value, T_ARRAY))
        return rb_sprintf("an Array of %ld elements", RARRAY_LEN(value));
    return rb_sprintf("an instance of %s", rb_obj_classname(value));
}
