/* response.c - reads what the app returned and hands it to the server.
 *
 * Nothing is copied: fields point into the app's strings. What is wrong with a response is raised as a ResponseError that says
 * what came instead.
 */
#include "ruby_host.h"

void head_prepare(Head *head) {
    head->has_length = false;
    head->chunked = false;
    head->field_count = 0;
    head->field_room = FEW_FIELDS;
    head->fields = head->few;
    head->memory = Qfalse;
    head->kept = Qfalse;
    head->hijack = Qfalse;
    head->protocol = Qfalse;
}

void head_remove(Head *head, size_t index) {
    head->field_count--;
    memmove(&head->fields[index], &head->fields[index + 1], (head->field_count - index) * sizeof(oribi_field));
}

static void grow(Head *head) {
    const size_t room = head->field_room * 2;
    VALUE memory = rb_str_new(NULL, (long)(room * sizeof(oribi_field)));
    memcpy(RSTRING_PTR(memory), head->fields, head->field_count * sizeof(oribi_field));
    head->fields = (oribi_field *)RSTRING_PTR(memory);
    head->field_room = room;
    head->memory = memory;
}

VALUE response_describe(VALUE value) {
    if (NIL_P(value) || value == Qtrue || value == Qfalse)
        return rb_inspect(value);
    if (RB_INTEGER_TYPE_P(value) || RB_SYMBOL_P(value))
        return rb_sprintf("%+" PRIsVALUE, value);
    if (RB_TYPE_P(value, T_STRING))
        return rb_sprintf("the String %+" PRIsVALUE, rb_str_substr(value, 0, RSTRING_LEN(value) < 60 ? RSTRING_LEN(value) : 60));
    if (RB_TYPE_P(value, T_ARRAY))
        return rb_sprintf("an Array of %ld elements", RARRAY_LEN(value));
    return rb_sprintf("an instance of %s", rb_obj_classname(value));
}

/* ---- Status ------------------------------------------------------------------------------------------------------------- */

static uint16_t read_status(VALUE status) {
    VALUE number = status;
    if (RB_UNLIKELY(!RB_FIXNUM_P(number))) {
        number = NIL_P(status) ? Qundef : rb_check_funcall(status, names.to_i, 0, NULL);
        if (number == Qundef || !RB_FIXNUM_P(number))
            rb_raise(response_error, "the status must be a number from 100 to 999, not %" PRIsVALUE, response_describe(status));
    }
    if (FIX2LONG(number) < 100 || FIX2LONG(number) > 999)
        rb_raise(response_error, "the status must be a number from 100 to 999, not %" PRIsVALUE, response_describe(status));
    return (uint16_t)FIX2LONG(number);
}

/* ---- Headers ------------------------------------------------------------------------------------------------------------ */

static void keep(Head *head, VALUE string) {
    if (!head->kept)
        head->kept = rb_ary_new();
    rb_ary_push(head->kept, string);
}

static void add_field(Head *head, VALUE name, const char *value, size_t size) {
    oribi_field *field;
    if (RB_UNLIKELY(head->field_count == head->field_room))
        grow(head);
    field = &head->fields[head->field_count++];
    field->name.data = RSTRING_PTR(name);
    field->name.size = (size_t)RSTRING_LEN(name);
    field->value.data = value;
    field->value.size = size;
}

/* One field for each line: "\n" separates values in Rack 2. A line without anything is no value. */
static void add_lines(Head *head, VALUE name, const char *value, size_t size) {
    const char *const end = value + size;
    while (value < end) {
        const char *line = memchr(value, '\n', (size_t)(end - value));
        const char *stop = line ? line : end;
        if (stop > value)
            add_field(head, name, value, (size_t)(stop - value));
        value = stop + 1;
    }
}

static void add_value(Head *head, VALUE name, VALUE value) {
    if (RB_UNLIKELY(!RB_TYPE_P(value, T_STRING))) {
        if (RB_TYPE_P(value, T_ARRAY)) {
            /* The Array may change while a value is made a string. */
            for (long i = 0; i < RARRAY_LEN(value); i++)
                add_value(head, name, RARRAY_AREF(value, i));
            return;
        }
        value = rb_obj_as_string(value);
        keep(head, value);
    }
    if (RB_LIKELY(!memchr(RSTRING_PTR(value), '\n', (size_t)RSTRING_LEN(value))))
        add_field(head, name, RSTRING_PTR(value), (size_t)RSTRING_LEN(value));
    else
        add_lines(head, name, RSTRING_PTR(value), (size_t)RSTRING_LEN(value));
}

static bool name_is(VALUE name, const char *text, size_t size) {
    return (size_t)RSTRING_LEN(name) == size && strncasecmp(RSTRING_PTR(name), text, size) == 0;
}

/* Whether a field says that the app has coded its body. Then it is not for the client, to which the server codes anew. */
static bool says_chunked(VALUE name, VALUE value) {
    return RSTRING_LEN(name) == 17 && name_is(name, "transfer-encoding", 17) && RB_TYPE_P(value, T_STRING)
           && name_is(value, "chunked", 7);
}

bool head_find_length(Head *head) {
    for (size_t i = 0; i < head->field_count; i++) {
        const oribi_field *field = &head->fields[i];
        uint64_t length = 0;
        if (field->name.size != 14 || strncasecmp(field->name.data, "content-length", 14) != 0)
            continue;
        head->length_at = i;
        /* More digits are no length; the server will say so. */
        if (field->value.size == 0 || field->value.size > 18)
            return false;
        for (size_t j = 0; j < field->value.size; j++) {
            if (field->value.data[j] < '0' || field->value.data[j] > '9')
                return false;
            length = length * 10 + (uint64_t)(field->value.data[j] - '0');
        }
        head->length = length;
        return head->has_length = true;
    }
    return false;
}

/* Headers that are messages to the server. */
static void take_internal(Head *head, VALUE name, VALUE value) {
    if (RSTRING_LEN(name) == 11 && memcmp(RSTRING_PTR(name), "rack.hijack", 11) == 0)
        head->hijack = NIL_P(value) ? Qfalse : value;
    else if (RSTRING_LEN(name) == 13 && memcmp(RSTRING_PTR(name), "rack.protocol", 13) == 0 && RB_TYPE_P(value, T_STRING))
        head->protocol = value;
}

static void add_header(Head *head, VALUE name, VALUE value) {
    if (RB_UNLIKELY(!RB_TYPE_P(name, T_STRING))) {
        if (!RB_SYMBOL_P(name))
            rb_raise(response_error, "a header's name must be a String, not %" PRIsVALUE, response_describe(name));
        name = rb_sym2str(name);
    }
    if (RB_UNLIKELY(RSTRING_LEN(name) > 5 && memcmp(RSTRING_PTR(name), "rack.", 5) == 0)) {
        take_internal(head, name, value);
        return;
    }
    if (RB_UNLIKELY(says_chunked(name, value)))
        head->chunked = true;
    else
        add_value(head, name, value);
}

static int add_entry(VALUE name, VALUE value, VALUE head) {
    add_header((Head *)head, name, value);
    return ST_CONTINUE;
}

static VALUE add_yielded(RB_BLOCK_CALL_FUNC_ARGLIST(first, head)) {
    VALUE name = first, value = argc > 1 ? argv[1] : Qnil;
    if (argc == 1 && RB_TYPE_P(first, T_ARRAY) && RARRAY_LEN(first) == 2) {
        name = RARRAY_AREF(first, 0);
        value = RARRAY_AREF(first, 1);
    }
    /* Nobody else need hold what an iterator yields. */
    if (!((Head *)head)->kept)
        ((Head *)head)->kept = rb_ary_new();
    rb_ary_push(((Head *)head)->kept, name);
    rb_ary_push(((Head *)head)->kept, value);
    add_header((Head *)head, name, value);
    return Qnil;
}

void response_fields(VALUE headers, Head *head) {
    if (RB_LIKELY(RB_TYPE_P(headers, T_HASH)))
        rb_hash_foreach(headers, add_entry, (VALUE)head);
    else if (!NIL_P(headers) && rb_respond_to(headers, names.each))
        rb_block_call(headers, names.each, 0, NULL, add_yielded, (VALUE)head);
    else
        rb_raise(response_error, "the headers must be a Hash, not %" PRIsVALUE, response_describe(headers));
}

/* ---- The response ------------------------------------------------------------------------------------------------------- */

/* The server says what rule is broken; this says by which field. */
static VALUE culprit(const Head *head) {
    for (size_t i = 0; i < head->field_count; i++) {
        const oribi_field *field = &head->fields[i];
        bool invalid = field->name.size == 0;
        for (size_t j = 0; j < field->name.size; j++) {
            const unsigned char byte = (unsigned char)field->name.data[j];
            invalid |= byte <= ' ' || byte >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", byte);
        }
        for (size_t j = 0; j < field->value.size; j++) {
            const unsigned char byte = (unsigned char)field->value.data[j];
            invalid |= (byte < ' ' && byte != '\t') || byte == 0x7f;
        }
        if (invalid)
            return rb_sprintf(" (header %+" PRIsVALUE ", value %+" PRIsVALUE ")",
                              rb_str_new(field->name.data, (long)field->name.size),
                              rb_str_new(field->value.data, (long)(field->value.size < 60 ? field->value.size : 60)));
    }
    return rb_str_new(NULL, 0);
}

bool response_accepted(Call *call, oribi_result result) {
    if (RB_LIKELY(result == ORIBI_OK))
        return true;
    if (result != ORIBI_GONE) {
        VALUE why = rb_str_new_cstr(oribi_last_error());
        rb_raise(response_error, "%" PRIsVALUE "%" PRIsVALUE, why,
                 call->state == CALL_STARTED ? rb_str_new(NULL, 0) : culprit(&call->head));
    }
    call->state = CALL_OVER;
    return false;
}

static void check_shape(VALUE response) {
    if (RB_UNLIKELY(!RB_TYPE_P(response, T_ARRAY)))
        rb_raise(response_error, "the app must return an Array of status, headers and body, not %" PRIsVALUE,
                 response_describe(response));
    if (RB_UNLIKELY(RARRAY_LEN(response) != 3))
        rb_raise(response_error, "the app must return an Array of 3 elements, not of %ld", RARRAY_LEN(response));
}

void response_send(Call *call) {
    VALUE body;
    if (RB_UNLIKELY(!RB_TYPE_P(call->response, T_ARRAY)))
        call->response = rb_check_array_type(call->response) == Qnil ? call->response : rb_check_array_type(call->response);
    check_shape(call->response);
    call->status = RARRAY_AREF(call->response, 0);
    call->headers = RARRAY_AREF(call->response, 1);
    call->body = body = RARRAY_AREF(call->response, 2);
    call->close_due = !(RB_TYPE_P(body, T_ARRAY) && RBASIC_CLASS(body) == rb_cArray) && !RB_SPECIAL_CONST_P(body);
    call->head.status = read_status(call->status);
    response_fields(call->headers, &call->head);
    if (RB_UNLIKELY(call->head.hijack != Qfalse))
        hijack_respond(call, call->head.hijack);
    else if (RB_UNLIKELY(call->head.protocol != Qfalse || call->head.status == 101) && rb_respond_to(body, names.call))
        hijack_respond(call, body);
    else if (RB_LIKELY(RB_TYPE_P(body, T_ARRAY)) && !call->head.chunked)
        body_send_array(call, body);
    else
        body_send(call);
    RB_GC_GUARD(body);
}
