/* sending.c - passes a response array to the server. */
#include "perl_host.h"

/* The most pieces of a body that are gathered without an allocation. */
#define FEW_PARTS 16

static const char *send_array(pTHX_ const Target *target, const Head *head, AV *body) {
    oribi_bytes few[FEW_PARTS];
    oribi_bytes *parts = few;
    size_t part_count = 0;
    SSize_t count;
    count = AvFILLp(body) + 1;
    if (count > FEW_PARTS)
        parts = (oribi_bytes *)SvPVX(sv_2mortal(newSV((size_t)count * sizeof(oribi_bytes))));
    for (SSize_t i = 0; i < count; i++) {
        oribi_bytes *part = &parts[part_count];
        TextResult result = text_bytes(aTHX_ response_element(aTHX_ body, i), part);
        if (UNLIKELY(result != TEXT_OK)) {
            char number[24];
            if (result == TEXT_UNDEFINED) {
                app_log(aTHX_ target->environment, ORIBI_LOG_WARN, "piece %ld of the body is undef and was sent as nothing",
                        (long)i);
                continue;
            }
            my_snprintf(number, sizeof number, "%ld", (long)i);
            return response_text_complaint(aTHX_ result, "piece", SvPVX_const(sv_2mortal(newSVpvf("%s of the body", number))));
        }
        part_count += part->size > 0;
    }
    return response_failure(aTHX_ oribi_respond(target->lane, target->exchange, head->status, head->fields, head->field_count,
                                                parts, part_count));
}

const char *response_send(pTHX_ const Target *target, AV *response) {
    Head head;
    SV *body = response_element(aTHX_ response, 2);
    const char *wrong;
    if (UNLIKELY(socket_is_used(aTHX_ target->context, target->exchange))) {
        socket_drop(aTHX_ target->context, target->exchange, target->environment, "its answer");
        body_drop(aTHX_ target, body);
        return NULL;
    }
    wrong = response_head(aTHX_ response, &head);
    if (UNLIKELY(wrong != NULL)) {
        body_drop(aTHX_ target, body);
    } else {
        if (LIKELY(SvROK(body) && SvTYPE(SvRV(body)) == SVt_PVAV && !SvOBJECT(SvRV(body))))
            wrong = send_array(aTHX_ target, &head, (AV *)SvRV(body));
        else
            wrong = body_send(aTHX_ target, &head, body);
    }
    if (UNLIKELY(wrong != NULL))
        socket_give_up(aTHX_ target->context, target->lane, target->exchange);
    return wrong;
}
