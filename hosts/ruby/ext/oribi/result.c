/* result.c - the server's results of sends. */
#include "ruby_host.h"

bool result_accepted(Call *call, oribi_result result) {
    if (RB_LIKELY(result == ORIBI_OK))
        return true;
    if (result != ORIBI_GONE) {
        /* Before anything is allocated, because that may move the strings to which the fields point. */
        char culprit[192] = "";
        if (call->state != CALL_STARTED)
            head_culprit(&call->head, culprit, sizeof culprit);
        rb_raise(response_error, "%s%s", oribi_last_error(), culprit);
    }
    call->state = CALL_OVER;
    return false;
}
