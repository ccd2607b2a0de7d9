/* head.c - the head of a response: makes the server's fields from the app's headers.
 *
 * The garbage collector may move a string whenever memory is allocated, and Ruby code may change the string. So there are two
 * ways: if the headers consist of a few strings, the fields point to these, and are sent before any allocation or Ruby code;
 * all other headers are copied.
 */
#include "ruby_host.h"

/* Room for copies, in bytes. It must exceed the size of embedded strings, whose memory the collector may move. */
#define COPY_ROOM 4096

void head_prepare(Head *head) {
    head->has_length = false;
    head->chunked = false;
    head->copies = false;
    head->field_count = 0;
    head->field_room = FEW_FIELDS;
    head->fields = head->few;
    head->memory = Qfalse;
    head->bytes = Qfalse;
    head->hijack = Qfalse;
    head->protocol = Qfalse;
}

/* ---- Adding fields ------------------------------------------------------------------------------------------------------ */

/* The functions of this part return false if the headers must be copied and have not been copied yet. */

static void grow(Head *head) {
    const size_t room = head->field_room * 4;
    VALUE memory = rb_str_new(NULL, (long)(room * sizeof(oribi_field)));
    memcpy(RSTRING_PTR(memory), head->fields, head->field_count * sizeof(oribi_field));
    head->fields = (oribi_field *)RSTRING_PTR(memory);
    head->field_room = room;
    head->memory = memory;
}

/* Copies a part of a string. The result is an offset until everything is copied, because the copies may move. */
static oribi_bytes copy(Head *head, VALUE string, size_t from, size_t size) {
    const oribi_bytes bytes = {(const char *)RSTRING_LEN(head->bytes), size};
    rb_str_cat(head->bytes, RSTRING_PTR(string) + from, (long)size);
    RB_GC_GUARD(string);
    return bytes;
}

static bool add_field(Head *head, VALUE name, VALUE value, size_t from, size_t size) {
    oribi_field *field;
    if (RB_UNLIKELY(head->field_count == head->field_room)) {
        if (!head->copies)
            return false;
        grow(head);
    }
    field = &head->fields[head->field_count++];
    if (RB_LIKELY(!head->copies)) {
        field->name = (oribi_bytes){RSTRING_PTR(name), (size_t)RSTRING_LEN(name)};
        field->value = (oribi_bytes){RSTRING_PTR(value) + from, size};
    } else {
        field->name = copy(head, name, 0, (size_t)RSTRING_LEN(name));
        field->value = copy(head, value, from, size);
    }
    return true;
}

/* One field for each line: in Rack 2 "\n" separates values. An empty line is not a value. */
static bool add_lines(Head *head, VALUE name, VALUE value) {
    size_t from = 0;
    while (from < (size_t)RSTRING_LEN(value)) {
        const char *start = RSTRING_PTR(value) + from;
        const char *line = memchr(start, '\n', (size_t)RSTRING_LEN(value) - from);
        const size_t size = line ? (size_t)(line - start) : (size_t)RSTRING_LEN(value) - from;
        if (size > 0 && !add_field(head, name, value, from, size))
            return false;
        from += size + 1;
    }
    return true;
}

static bool add_value(Head *head, VALUE name, VALUE value) {
    if (RB_UNLIKELY(!RB_TYPE_P(value, T_STRING))) {
        if (RB_TYPE_P(value, T_ARRAY)) {
            /* The Array may change while a value is converted to a string. */
            for (long i = 0; i < RARRAY_LEN(value); i++)
                if (!add_value(head, name, RARRAY_AREF(value, i)))
                    return false;
            return true;
        }
        if (!head->copies)
            return false;
        value = rb_obj_as_string(value);
    }
    if (RB_LIKELY(!memchr(RSTRING_PTR(value), '\n', (size_t)RSTRING_LEN(value))))
        return add_field(head, name, value, 0, (size_t)RSTRING_LEN(value));
    return add_lines(head, name, value);
}

static bool text_is(VALUE text, const char *expected, size_t size) {
    return (size_t)RSTRING_LEN(text) == size && strncasecmp(RSTRING_PTR(text), expected, size) == 0;
}

/* Reads headers that are meant for the server. */
static void take_internal(Head *head, VALUE name, VALUE value) {
    if (text_is(name, "rack.hijack", 11))
        head->hijack = NIL_P(value) ? Qfalse : value;
    else if (text_is(name, "rack.protocol", 13) && RB_TYPE_P(value, T_STRING))
        head->protocol = value;
}

/* Whether a Content-Length is to be left out: middleware unsets it by nil, and middleware for another version of Rack adds the same one
 * again, in another spelling. Others are the server's to judge. */
static bool is_spare_length(const Head *head, VALUE value) {
    const char *copies = head->copies ? RSTRING_PTR(head->bytes) : NULL;
    char digits[24];
    oribi_bytes length = {digits, 0};
    if (NIL_P(value))
        return true;
    if (RB_FIXNUM_P(value))
        length.size = (size_t)snprintf(digits, sizeof digits, "%ld", FIX2LONG(value));
    else if (RB_TYPE_P(value, T_STRING))
        length = (oribi_bytes){RSTRING_PTR(value), (size_t)RSTRING_LEN(value)};
    else
        return false;
    for (size_t i = 0; i < head->field_count; i++) {
        oribi_field field = head->fields[i];
        if (field.name.size != 14 || field.value.size != length.size)
            continue;
        if (copies) {
            field.name.data = copies + (size_t)field.name.data;
            field.value.data = copies + (size_t)field.value.data;
        }
        if (field_is(&field, "content-length") && memcmp(field.value.data, length.data, length.size) == 0)
            return true;
    }
    return false;
}

static bool add_header(Head *head, VALUE name, VALUE value) {
    if (RB_UNLIKELY(!RB_TYPE_P(name, T_STRING))) {
        if (!head->copies)
            return false;
        if (!RB_SYMBOL_P(name))
            rb_raise(response_error, "a header's name must be a String, not %" PRIsVALUE, describe_value(name));
        name = rb_sym2str(name);
    }
    if (RB_UNLIKELY(RSTRING_LEN(name) > 5 && memcmp(RSTRING_PTR(name), "rack.", 5) == 0)) {
        take_internal(head, name, value);
        return true;
    }
    if (RB_UNLIKELY(RSTRING_LEN(name) == 17 && text_is(name, "transfer-encoding", 17)) && RB_TYPE_P(value, T_STRING)
        && text_is(value, "chunked", 7))
        head->chunked = true;
    if (RSTRING_LEN(name) == 14 && text_is(name, "content-length", 14) && is_spare_length(head, value))
        return true;
    return add_value(head, name, value);
}

/* ---- Reading headers ---------------------------------------------------------------------------------------------------- */

typedef struct {
    Head *head;
    bool succeeded;
} Reading;

static int read_entry(VALUE name, VALUE value, VALUE argument) {
    Reading *reading = (Reading *)argument;
    reading->succeeded = add_header(reading->head, name, value);
    return reading->succeeded ? ST_CONTINUE : ST_STOP;
}

static VALUE read_yielded(RB_BLOCK_CALL_FUNC_ARGLIST(first, head)) {
    VALUE name = first, value = argc > 1 ? argv[1] : Qnil;
    if (argc == 1 && RB_TYPE_P(first, T_ARRAY) && RARRAY_LEN(first) == 2) {
        name = RARRAY_AREF(first, 0);
        value = RARRAY_AREF(first, 1);
    }
    add_header((Head *)head, name, value);
    return Qnil;
}

bool head_point(Head *head, VALUE headers) {
    Reading reading = {head, true};
    if (RB_UNLIKELY(!RB_TYPE_P(headers, T_HASH)))
        return false;
    rb_hash_foreach(headers, read_entry, (VALUE)&reading);
    return reading.succeeded;
}

void head_copy(Head *head, VALUE headers) {
    Reading reading = {head, true};
    head_prepare(head);
    head->copies = true;
    head->bytes = rb_str_buf_new(COPY_ROOM);
    if (RB_TYPE_P(headers, T_HASH))
        rb_hash_foreach(headers, read_entry, (VALUE)&reading);
    else if (!NIL_P(headers) && rb_respond_to(headers, names.each))
        rb_block_call(headers, names.each, 0, NULL, read_yielded, (VALUE)head);
    else
        rb_raise(response_error, "the headers must be a Hash, not %" PRIsVALUE, describe_value(headers));
    for (size_t i = 0; i < head->field_count; i++) {
        oribi_field *field = &head->fields[i];
        field->name.data = RSTRING_PTR(head->bytes) + (size_t)field->name.data;
        field->value.data = RSTRING_PTR(head->bytes) + (size_t)field->value.data;
    }
}

bool head_of_trailers(Head *head, VALUE body) {
    VALUE trailers;
    if (!rb_respond_to(body, names.trailers))
        return false;
    trailers = rb_funcallv(body, names.trailers, 0, NULL);
    if (NIL_P(trailers))
        return false;
    if (!RB_TYPE_P(trailers, T_HASH))
        rb_raise(response_error, "the trailers of the body must be a Hash or nil, not %" PRIsVALUE,
                 describe_value(trailers));
    head_copy(head, trailers);
    return head->field_count > 0;
}

/* ---- Looking at fields -------------------------------------------------------------------------------------------------- */

bool field_is(const oribi_field *field, const char *name) {
    return field->name.size == strlen(name) && strncasecmp(field->name.data, name, field->name.size) == 0;
}

bool head_has(const Head *head, const char *name) {
    for (size_t i = 0; i < head->field_count; i++)
        if (field_is(&head->fields[i], name))
            return true;
    return false;
}

/* Reads a number that consists of digits only. Returns false if it is too large; the server reports that error later. */
static bool read_number(oribi_bytes text, uint64_t *number) {
    *number = 0;
    if (text.size == 0 || text.size > 18)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        *number = *number * 10 + (uint64_t)(text.data[i] - '0');
    }
    return true;
}

bool head_find_length(Head *head) {
    for (size_t i = 0; i < head->field_count; i++) {
        if (field_is(&head->fields[i], "content-length")) {
            head->length_at = i;
            return head->has_length = read_number(head->fields[i].value, &head->length);
        }
    }
    return false;
}

void head_remove(Head *head, size_t index) {
    head->field_count--;
    memmove(&head->fields[index], &head->fields[index + 1], (head->field_count - index) * sizeof(oribi_field));
}

/* Copies the printable characters. */
static void show(oribi_bytes bytes, char *text, size_t room) {
    size_t at = 0;
    for (size_t i = 0; i < bytes.size && at + 5 < room; i++) {
        const unsigned char byte = (unsigned char)bytes.data[i];
        if (byte >= ' ' && byte < 0x7f && byte != '"')
            text[at++] = (char)byte;
        else
            at += (size_t)snprintf(text + at, room - at, "\\x%02X", byte);
    }
    text[at] = '\0';
}

void head_culprit(const Head *head, char *text, size_t room) {
    text[0] = '\0';
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
        if (invalid) {
            char name[64], value[64];
            show(field->name, name, sizeof name);
            show(field->value, value, sizeof value);
            snprintf(text, room, " (header \"%s\", value \"%s\")", name, value);
            return;
        }
    }
}
