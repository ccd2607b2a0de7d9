/* chunks.c - decodes the chunked coding (RFC 9112, section 7.1) of bodies that apps have coded themselves, as Rack::Chunked and
 * Rails do. The server then codes the content for the client's protocol. */
#include "ruby_host.h"

static void fail(void) {
    rb_raise(response_error, "the body is not in the chunked coding that its headers announce");
}

static int digit(char byte) {
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F')
        return byte - 'A' + 10;
    return -1;
}

/* A byte of the line with the size of the next chunk. */
static void read_size(Chunks *chunks, char byte) {
    const int value = digit(byte);
    if (byte == '\n') {
        if (chunks->digits == 0)
            fail();
        chunks->state = chunks->left > 0 ? CHUNK_DATA : CHUNK_TRAILER;
        chunks->line_is_empty = true;
        chunks->digits = 0;
        chunks->in_extension = false;
    } else if (chunks->in_extension || byte == '\r') {
        return;
    } else if (byte == ';') {
        chunks->in_extension = true;
    } else if (value >= 0 && ++chunks->digits <= 15) {
        chunks->left = chunks->left * 16 + (uint64_t)value;
    } else {
        fail();
    }
}

oribi_bytes chunks_next(Chunks *chunks, const char **data, size_t *size) {
    while (*size > 0) {
        const char byte = **data;
        if (chunks->state == CHUNK_DATA) {
            oribi_bytes run = {*data, *size < chunks->left ? *size : (size_t)chunks->left};
            *data += run.size;
            *size -= run.size;
            chunks->left -= run.size;
            if (chunks->left == 0)
                chunks->state = CHUNK_END;
            return run;
        }
        ++*data;
        --*size;
        switch (chunks->state) {
        case CHUNK_SIZE:
            read_size(chunks, byte);
            break;
        case CHUNK_END:
            if (byte == '\n')
                chunks->state = CHUNK_SIZE;
            else if (byte != '\r')
                fail();
            break;
        case CHUNK_TRAILER:
            /* The trailer ends with an empty line. */
            if (byte != '\n')
                chunks->line_is_empty &= byte == '\r';
            else if (chunks->line_is_empty)
                chunks->state = CHUNK_DONE;
            else
                chunks->line_is_empty = true;
            break;
        case CHUNK_DATA:
        case CHUNK_DONE:
            fail();
        }
    }
    return (oribi_bytes){NULL, 0};
}
