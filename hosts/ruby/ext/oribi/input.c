/* input.c - rack.input: the content of a request, read from the server's memory or file; and oribi.data of a filter.
 *
 * While the app is called, content in memory belongs to the server. It is copied when the app reads it. It is also copied when
 * the call ends and the app may still have the stream. Content in a file is read through a descriptor of this stream and never
 * copied. When the response is over, the descriptor of a large file is closed: the file occupies space on the disk, and it may
 * be long until the garbage collector frees the stream.
 */
#include "ruby_host.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* The number of bytes of a file to search at once for the end of a line. */
#define WINDOW_BYTES 16384

/* The least size that is reported to Ruby's garbage collector for an open file. The collector starts a collection when 16 to 32
 * MiB have been reported, with some delay. With this value, apps that do not close their input leave up to 160 open files
 * instead of 800. */
#define LEAST_WEIGHT (512 << 10)

typedef struct {
    const char *memory; /* the server's; NULL if the content is in `string` or in `file` */
    VALUE string;       /* the whole content, or Qfalse */
    int file;           /* -1: none */
    bool closed;
    bool shared; /* the stream of all requests without content, which keeps no state */
    uint64_t size;
    uint64_t position;
    char *window; /* bytes of the file from `window_at` on */
    uint64_t window_at;
    size_t window_size;
} Input;

static VALUE input_class;
static VALUE empty;

/* The number of open files, and the one at which unreachable ones are collected. The weights alone do not bound it: in a large heap,
 * files stay open until the sweep that goes on beside the requests reaches them. */
static size_t open_files;
#define LEAST_COLLECTION 256
static size_t next_collection = LEAST_COLLECTION;

static void input_mark(void *pointer) {
    rb_gc_mark(((Input *)pointer)->string);
}

/* Returns the size that is reported to the garbage collector: a deleted file occupies space on the disk as long as it is
 * open. */
static ssize_t weight(const Input *input) {
    return input->size > LEAST_WEIGHT ? (ssize_t)input->size : LEAST_WEIGHT;
}

static void close_file(Input *input) {
    if (input->file < 0)
        return;
    close(input->file);
    input->file = -1;
    open_files--;
    rb_gc_adjust_memory_usage(-weight(input));
}

static void input_free(void *pointer) {
    Input *input = (Input *)pointer;
    close_file(input);
    xfree(input->window);
    xfree(input);
}

static size_t input_memory(const void *pointer) {
    return sizeof(Input) + (((const Input *)pointer)->window ? WINDOW_BYTES : 0);
}

static const rb_data_type_t input_type = {
    .wrap_struct_name = "Oribi::Input",
    .function = {.dmark = input_mark, .dfree = input_free, .dsize = input_memory},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

static VALUE make(Input **input) {
    VALUE self = TypedData_Make_Struct(input_class, Input, &input_type, *input);
    (*input)->file = -1;
    return self;
}

/* Collects unreachable files. If most of them are in use, the next collection is due at twice as many. */
static void collect_files(void) {
    rb_gc_start();
    next_collection = 2 * open_files > LEAST_COLLECTION ? 2 * open_files : LEAST_COLLECTION;
}

VALUE input_new(const oribi_content *content) {
    Input *input;
    VALUE self = make(&input);
    input->size = content->size;
    if (content->file < 0) {
        input->memory = content->memory;
    } else {
        input->file = fcntl(content->file, F_DUPFD_CLOEXEC, 3);
        if (input->file < 0)
            rb_sys_fail("the content of the request cannot be opened");
        rb_gc_adjust_memory_usage(weight(input));
        if (++open_files >= next_collection)
            collect_files();
    }
    return self;
}

VALUE input_empty(void) {
    return empty;
}

/* Copies the content into a Ruby string. */
static VALUE copy_memory(VALUE self) {
    Input *input = (Input *)RTYPEDDATA_DATA(self);
    RB_OBJ_WRITE(self, &input->string, rb_str_new(input->memory, (long)input->size));
    return Qnil;
}

void input_detach(VALUE self, bool over) {
    Input *input = (Input *)RTYPEDDATA_DATA(self);
    if (over && input->size > LEAST_WEIGHT)
        close_file(input);
    if (input->memory && !input->string && !input->closed)
        failure_guard("the content of a request cannot be kept", Qnil, copy_memory, self);
    input->memory = NULL;
}

static Input *open_input(VALUE self) {
    Input *input = (Input *)rb_check_typeddata(self, &input_type);
    if (input->closed)
        rb_raise(rb_eIOError, "closed stream");
    if (input->size > 0 && !input->memory && !input->string && input->file < 0)
        rb_raise(rb_eIOError, "the content is gone");
    return input;
}

/* Reads from the file until there are `size` bytes. */
static void read_file(const Input *input, char *to, size_t size, uint64_t from) {
    while (size > 0) {
        const ssize_t count = pread(input->file, to, size, (off_t)from);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            rb_sys_fail("the content of the request cannot be read");
        if (count == 0)
            rb_raise(rb_eEOFError, "the content of the request is incomplete");
        to += count;
        from += (uint64_t)count;
        size -= (size_t)count;
    }
}

/* Returns the content in memory: that of the server, or that of the string. */
static const char *bytes_of(const Input *input) {
    return input->string ? RSTRING_PTR(input->string) : input->memory;
}

/* Copies `size` bytes from the position on, which must exist, and advances the position. */
static void take(Input *input, char *to, size_t size) {
    if (input->file >= 0)
        read_file(input, to, size, input->position);
    else if (size > 0)
        memcpy(to, bytes_of(input) + input->position, size);
    input->position += size;
}

/* Converts the argument `buffer` to a String. Converting arguments may run methods of the app, which may read from the stream
 * or close it. So all arguments are converted first, and the state of the stream is checked afterwards. */
static VALUE buffer_of(VALUE buffer) {
    if (!NIL_P(buffer))
        StringValue(buffer);
    return buffer;
}

/* A string for `size` bytes: `buffer` if given. Runs no code of the app. */
static VALUE room(VALUE buffer, size_t size) {
    if (NIL_P(buffer))
        return rb_str_new(NULL, (long)size);
    rb_str_modify(buffer);
    if (rb_str_capacity(buffer) < size)
        rb_str_modify_expand(buffer, (long)size - RSTRING_LEN(buffer));
    rb_str_set_len(buffer, (long)size);
    rb_enc_associate(buffer, rb_ascii8bit_encoding());
    return buffer;
}

static VALUE read_at_most(Input *input, VALUE buffer, uint64_t size) {
    const uint64_t left = input->size - input->position;
    const size_t count = (size_t)(size < left ? size : left);
    VALUE string = room(buffer, count);
    take(input, RSTRING_PTR(string), count);
    return string;
}

/* read([length [, buffer]]), as IO#read. */
static VALUE input_read(int argc, VALUE *argv, VALUE self) {
    Input *input;
    VALUE length, buffer, string;
    long size = 0;
    rb_scan_args(argc, argv, "02", &length, &buffer);
    buffer = buffer_of(buffer);
    if (!NIL_P(length))
        size = NUM2LONG(length);
    input = open_input(self);
    if (NIL_P(length)) {
        const bool whole = input->memory && !input->string && input->position == 0;
        string = read_at_most(input, buffer, UINT64_MAX);
        /* The app's string and the kept one share their memory until one of them is changed. */
        if (whole && NIL_P(buffer))
            RB_OBJ_WRITE(self, &input->string, rb_str_new_frozen(string));
        return string;
    }
    if (size < 0)
        rb_raise(rb_eArgError, "negative length %ld given", size);
    if (size > 0 && input->position == input->size) {
        if (!NIL_P(buffer))
            room(buffer, 0);
        return Qnil;
    }
    return read_at_most(input, buffer, (uint64_t)size);
}

/* readpartial(length [, buffer]), as IO#readpartial: IO.copy_stream calls it. */
static VALUE input_readpartial(int argc, VALUE *argv, VALUE self) {
    VALUE result, length, buffer;
    rb_scan_args(argc, argv, "11", &length, &buffer);
    result = input_read(argc, argv, self);
    if (NIL_P(result))
        rb_raise(rb_eEOFError, "end of file reached");
    return result;
}

/* Bytes from `at` on, without copying; at least one unless the content ends there. */
static const char *look(Input *input, uint64_t at, size_t *size) {
    if (input->file < 0) {
        *size = (size_t)(input->size - at);
        return bytes_of(input) + at;
    }
    if (!input->window)
        input->window = ALLOC_N(char, WINDOW_BYTES);
    if (at < input->window_at || at >= input->window_at + input->window_size) {
        const uint64_t left = input->size - at;
        const size_t count = left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES;
        input->window_size = 0;
        read_file(input, input->window, count, at);
        input->window_at = at;
        input->window_size = count;
    }
    *size = (size_t)(input->window_at + input->window_size - at);
    return input->window + (at - input->window_at);
}

/* The length of the next line with its separator. */
static uint64_t line_size(Input *input, const char *separator, size_t separator_size, uint64_t limit) {
    const char last = separator[separator_size - 1];
    const uint64_t most = input->size - input->position < limit ? input->size - input->position : limit;
    uint64_t count = 0;
    while (count < most) {
        size_t size;
        const char *bytes = look(input, input->position + count, &size);
        const char *found;
        if (size > most - count)
            size = (size_t)(most - count);
        found = memchr(bytes, last, size);
        if (!found) {
            count += size;
            continue;
        }
        count += (uint64_t)(found - bytes) + 1;
        if (separator_size == 1)
            return count;
        if (count >= separator_size) {
            /* The separator may extend across two windows: compare it byte by byte. */
            size_t matched = 0;
            while (matched < separator_size
                   && *look(input, input->position + count - separator_size + matched, &size) == separator[matched])
                matched++;
            if (matched == separator_size)
                return count;
        }
    }
    return count;
}

/* The parameters of a line. */
typedef struct {
    VALUE separator; /* nil without a separator */
    uint64_t most;
    bool chomp;
} Lines;

/* gets([separator] [, limit] [, chomp: true]), as IO#gets has them. */
static Lines lines_of(int argc, VALUE *argv) {
    static ID chomp;
    Lines lines = {.separator = rb_default_rs, .most = UINT64_MAX};
    VALUE first, limit, options, value;
    const int count = rb_scan_args(argc, argv, "02:", &first, &limit, &options);
    if (count == 1 && !NIL_P(first)) {
        const VALUE text = rb_check_string_type(first);
        if (NIL_P(text))
            limit = first;
        else
            lines.separator = text;
    } else if (count > 0) {
        lines.separator = first;
        if (!NIL_P(first))
            StringValue(lines.separator);
    }
    if (!NIL_P(limit)) {
        const long bytes = NUM2LONG(limit);
        if (bytes >= 0)
            lines.most = (uint64_t)bytes;
    }
    if (!NIL_P(options)) {
        if (!chomp)
            chomp = rb_intern("chomp");
        rb_get_kwargs(options, &chomp, 0, 1, &value);
        lines.chomp = value != Qundef && RTEST(value);
    }
    return lines;
}

/* Removes the separator from a line: from a paragraph all line ends; with the default separator also "\r\n". */
static VALUE chomp_line(VALUE line, VALUE separator) {
    const char *bytes = RSTRING_PTR(line);
    const long size = RSTRING_LEN(line), separator_size = RSTRING_LEN(separator);
    long left = size;
    if (separator_size == 0) {
        while (left > 0 && bytes[left - 1] == '\n')
            left--;
    } else if (left >= separator_size && memcmp(bytes + left - separator_size, RSTRING_PTR(separator), (size_t)separator_size) == 0) {
        left -= separator_size;
        if (separator == rb_default_rs && left > 0 && bytes[left - 1] == '\r')
            left--;
    }
    if (left < size)
        rb_str_set_len(line, left);
    return line;
}

static VALUE next_line(VALUE self, const Lines *lines) {
    Input *input = open_input(self);
    VALUE separator = lines->separator, line;
    uint64_t size;
    if (lines->most == 0)
        return rb_str_new(NULL, 0);
    /* There may be several empty lines between two paragraphs. */
    if (!NIL_P(separator) && RSTRING_LEN(separator) == 0) {
        size_t there;
        while (input->position < input->size && *look(input, input->position, &there) == '\n')
            input->position++;
    }
    if (input->position == input->size)
        return Qnil;
    if (NIL_P(separator))
        return read_at_most(input, Qnil, lines->most);
    if (RSTRING_LEN(separator) == 0)
        size = line_size(input, "\n\n", 2, lines->most);
    else
        size = line_size(input, RSTRING_PTR(separator), (size_t)RSTRING_LEN(separator), lines->most);
    line = read_at_most(input, Qnil, size);
    if (lines->chomp)
        chomp_line(line, separator);
    RB_GC_GUARD(separator);
    return line;
}

static VALUE input_gets(int argc, VALUE *argv, VALUE self) {
    const Lines lines = lines_of(argc, argv);
    return next_line(self, &lines);
}

static VALUE input_each(int argc, VALUE *argv, VALUE self) {
    Lines lines;
    RETURN_ENUMERATOR(self, argc, argv);
    lines = lines_of(argc, argv);
    if (lines.most == 0)
        rb_raise(rb_eArgError, "invalid limit: 0 for each_line");
    for (;;) {
        VALUE line = next_line(self, &lines);
        if (NIL_P(line))
            return self;
        rb_yield(line);
    }
}

static VALUE input_readline(int argc, VALUE *argv, VALUE self) {
    VALUE line = input_gets(argc, argv, self);
    if (NIL_P(line))
        rb_eof_error();
    return line;
}

static VALUE input_readlines(int argc, VALUE *argv, VALUE self) {
    const Lines lines = lines_of(argc, argv);
    VALUE all = rb_ary_new(), line;
    if (lines.most == 0)
        rb_raise(rb_eArgError, "invalid limit: 0 for readlines");
    while (!NIL_P(line = next_line(self, &lines)))
        rb_ary_push(all, line);
    return all;
}

/* ---- Bytes, which are the characters of binary content ------------------------------------------------------------------- */

static VALUE input_getbyte(VALUE self) {
    Input *input = open_input(self);
    size_t size;
    if (input->position == input->size)
        return Qnil;
    return INT2FIX((unsigned char)*look(input, input->position++, &size));
}

static VALUE input_getc(VALUE self) {
    Input *input = open_input(self);
    return input->position == input->size ? Qnil : read_at_most(input, Qnil, 1);
}

static VALUE unless_at_end(VALUE value) {
    if (NIL_P(value))
        rb_eof_error();
    return value;
}

static VALUE input_readbyte(VALUE self) {
    return unless_at_end(input_getbyte(self));
}

static VALUE input_readchar(VALUE self) {
    return unless_at_end(input_getc(self));
}

static VALUE input_each_byte(VALUE self) {
    VALUE byte;
    RETURN_ENUMERATOR(self, 0, NULL);
    while (!NIL_P(byte = input_getbyte(self)))
        rb_yield(byte);
    return self;
}

static VALUE input_each_char(VALUE self) {
    VALUE character;
    RETURN_ENUMERATOR(self, 0, NULL);
    while (!NIL_P(character = input_getc(self)))
        rb_yield(character);
    return self;
}

/* ---- Positions ----------------------------------------------------------------------------------------------------------- */

/* Nothing can be read after the end, so the end is the last position. */
static void move(Input *input, uint64_t start, int64_t offset) {
    if (offset < 0 && (uint64_t)-offset > start)
        rb_syserr_fail(EINVAL, "a position before the content");
    start += (uint64_t)offset;
    input->position = start < input->size ? start : input->size;
}

/* seek(offset [, whence]), as IO#seek. */
static VALUE input_seek(int argc, VALUE *argv, VALUE self) {
    Input *input;
    VALUE offset, whence;
    int64_t by;
    rb_scan_args(argc, argv, "11", &offset, &whence);
    by = NUM2LL(offset);
    input = open_input(self);
    if (NIL_P(whence) || whence == INT2FIX(SEEK_SET) || whence == ID2SYM(rb_intern("SET")))
        move(input, 0, by);
    else if (whence == INT2FIX(SEEK_CUR) || whence == ID2SYM(rb_intern("CUR")))
        move(input, input->position, by);
    else if (whence == INT2FIX(SEEK_END) || whence == ID2SYM(rb_intern("END")))
        move(input, input->size, by);
    else
        rb_raise(rb_eArgError, "unknown whence: %" PRIsVALUE, rb_inspect(whence));
    return INT2FIX(0);
}

static VALUE input_set_position(VALUE self, VALUE position) {
    input_seek(1, &position, self);
    return position;
}

static VALUE input_rewind(VALUE self) {
    open_input(self)->position = 0;
    return INT2FIX(0);
}

static VALUE input_close(VALUE self) {
    Input *input = (Input *)rb_check_typeddata(self, &input_type);
    if (input->shared || input->closed)
        return Qnil;
    input->closed = true;
    input->memory = NULL;
    input->string = Qfalse;
    close_file(input);
    return Qnil;
}

static VALUE input_is_closed(VALUE self) {
    return ((Input *)rb_check_typeddata(self, &input_type))->closed ? Qtrue : Qfalse;
}

static VALUE input_is_at_end(VALUE self) {
    const Input *input = open_input(self);
    return input->position == input->size ? Qtrue : Qfalse;
}

static VALUE input_size(VALUE self) {
    return ULL2NUM(open_input(self)->size);
}

static VALUE input_position(VALUE self) {
    return ULL2NUM(open_input(self)->position);
}

static VALUE input_external_encoding(VALUE self) {
    return rb_enc_from_encoding(rb_ascii8bit_encoding());
}

static VALUE input_binmode(VALUE self) {
    return self;
}

static VALUE input_is_binmode(VALUE self) {
    return Qtrue;
}

void input_define(void) {
    Input *input;
    input_class = rb_define_class_under(oribi_module, "Input", rb_cObject);
    rb_gc_register_mark_object(input_class);
    rb_undef_alloc_func(input_class);
    rb_undef_method(CLASS_OF(input_class), "new");
    rb_define_method(input_class, "read", input_read, -1);
    rb_define_method(input_class, "readpartial", input_readpartial, -1);
    rb_define_method(input_class, "gets", input_gets, -1);
    rb_define_method(input_class, "each", input_each, -1);
    rb_define_method(input_class, "each_line", input_each, -1);
    rb_define_method(input_class, "readline", input_readline, -1);
    rb_define_method(input_class, "readlines", input_readlines, -1);
    rb_define_method(input_class, "getbyte", input_getbyte, 0);
    rb_define_method(input_class, "readbyte", input_readbyte, 0);
    rb_define_method(input_class, "each_byte", input_each_byte, 0);
    rb_define_method(input_class, "getc", input_getc, 0);
    rb_define_method(input_class, "readchar", input_readchar, 0);
    rb_define_method(input_class, "each_char", input_each_char, 0);
    rb_define_method(input_class, "sysread", input_readpartial, -1);
    rb_define_method(input_class, "seek", input_seek, -1);
    rb_define_method(input_class, "pos=", input_set_position, 1);
    rb_define_method(input_class, "rewind", input_rewind, 0);
    rb_define_method(input_class, "close", input_close, 0);
    rb_define_method(input_class, "closed?", input_is_closed, 0);
    rb_define_method(input_class, "eof", input_is_at_end, 0);
    rb_define_method(input_class, "eof?", input_is_at_end, 0);
    rb_define_method(input_class, "size", input_size, 0);
    rb_define_method(input_class, "length", input_size, 0);
    rb_define_method(input_class, "pos", input_position, 0);
    rb_define_method(input_class, "tell", input_position, 0);
    rb_define_method(input_class, "external_encoding", input_external_encoding, 0);
    rb_define_method(input_class, "binmode", input_binmode, 0);
    rb_define_method(input_class, "binmode?", input_is_binmode, 0);
    empty = make(&input);
    input->shared = true;
    rb_gc_register_mark_object(empty);
}
