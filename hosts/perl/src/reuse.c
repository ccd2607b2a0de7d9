/* reuse.c - decides which environments can serve the next request.
 *
 * An environment may be reused only if no data of one client can reach another. So after a request its hash is compared, entry
 * by entry in the order of its buckets, with the record that was made when it was filled. Keys that the app has added are
 * removed. If a recorded entry is missing or has moved, the hash is given up. A string value is overwritten in place only if it
 * is a plain string with no other reference. Constants must be unchanged bit for bit. Any other value is replaced by a new one.
 * If anything else still refers to the hash (a reference, a weak reference, a tie), the hash is not reused, and the next
 * request gets a new one.
 */
#include "perl_host.h"

/* The longest string buffer that is kept for the next request: the longest header line that servers commonly accept.
 */
#define TEXT_KEPT 8192

/* The flags of a plain reference. */
#define REFERENCE_FLAGS (SVt_IV | SVf_ROK)

/* Returns a number other than 0 if the value of a slot has been touched. A string whose bytes the app has changed in place does
 * not count, because they will be overwritten. */
static inline UV is_touched(const Slot *slot, const SV *value) {
    UV difference = PTR2UV(value) ^ PTR2UV(slot->value);
    difference |= (UV)(SvREFCNT(value) ^ 1) | (UV)(SvFLAGS(value) ^ slot->flags);
#if IVSIZE > PTRSIZE
    if (slot->kind == SLOT_INTEGER)
        return difference | (UV)(SvIVX(value) ^ slot->expected.integer);
#endif
    /* A scalar holds the pointer to a string's buffer, an integer, or a reference in the same member. */
    return difference | (PTR2UV(value->sv_u.svu_pv) ^ PTR2UV(slot->expected.text));
}

/* Whether the value of a slot can be reused. */
static bool is_usable(const Slot *slot, SV *value) {
    if (!is_touched(slot, value))
        return TRUE;
    /* A number cached in a string makes it a PVIV or PVNV, which is fine. Magic would need at least a PVMG. */
    return slot->kind == SLOT_TEXT && value == slot->value && SvREFCNT(value) == 1 && SvTYPE(value) >= SVt_PV
           && SvTYPE(value) <= SVt_PVNV && SvTYPE(value) != SVt_INVLIST && !SvROK(value)
           && !(SvFLAGS(value) & (SVf_READONLY | SVf_PROTECT)) && SvLEN(value) <= TEXT_KEPT;
}

/* Replaces a value that cannot be reused by a new one. The destructor of the old value may run Perl code, but cannot reach the
 * hash.
 */
static void repair(pTHX_ Slot *slot) {
    SV *old = HeVAL(slot->entry);
    SV *value;
    switch (slot->kind) {
    case SLOT_TEXT:
        value = environment_text(aTHX_ (oribi_bytes){"", 0});
        break;
    case SLOT_INTEGER:
        value = newSViv(slot->expected.integer);
        break;
    case SLOT_REFERENCE:
        value = newRV_inc(slot->expected.referent);
        break;
    default:
        /* A reference to undef: the next request sets its own. */
        value = newRV_noinc(newSV(0));
        break;
    }
    HeVAL(slot->entry) = value;
    environment_expect(slot, slot->kind, value);
    SvREFCNT_dec(old);
}

/* Removes the reference that was the app's argument, if the app has changed it. Otherwise it stays for the next request. */
static void settle_reference(pTHX_ Environment *environment, HV *hash) {
    SV *reference = environment->reference;
    if (reference && (SvREFCNT(reference) != 1 || SvFLAGS(reference) != REFERENCE_FLAGS || SvRV(reference) != (SV *)hash)) {
        environment->reference = NULL;
        SvREFCNT_dec_NN(reference);
    }
}

/* Whether only this code can see the hash, and it is an ordinary hash. Resets an unfinished iterator. */
static bool is_ours(pTHX_ const Environment *environment, HV *hash) {
    if (SvREFCNT(hash) != (environment->reference ? 2 : 1) || SvOBJECT(hash) || SvMAGICAL(hash) || SvMAGIC(hash)
        || SvREADONLY(hash) || !HvSHAREKEYS(hash) || HvPLACEHOLDERS_get(hash) || !HvARRAY(hash))
        return FALSE;
    if (HvHasAUX(hash)) {
        if (HvNAME_get(hash) || HvAUX(hash)->xhv_backreferences)
            return FALSE;
        hv_iterinit(hash);
    }
    return TRUE;
}

#if PTRSIZE == 8 && defined(__GNUC__)
#define COMPARES_PAIRS 1
/* Two words, compared at once. */
typedef uint64_t Pair __attribute__((vector_size(16), aligned(8), may_alias));
STATIC_ASSERT_DECL(offsetof(HE, he_valu.hent_val) == offsetof(HE, hent_hek) + 8);
STATIC_ASSERT_DECL(offsetof(Slot, value) == offsetof(Slot, name) + 8);
STATIC_ASSERT_DECL(offsetof(SV, sv_flags) == offsetof(SV, sv_refcnt) + 4 && offsetof(SV, sv_u) == offsetof(SV, sv_refcnt) + 8);
STATIC_ASSERT_DECL(offsetof(Slot, flags) == offsetof(Slot, references) + 4
                   && offsetof(Slot, expected) == offsetof(Slot, references) + 8);
#endif

/* Whether the hash has exactly the recorded entries, at the recorded places. `link` of a slot is the pointer that must lead to
 * the entry: a bucket, or the `next` of the entry before. If all of them do, and the hash has as many entries as are recorded,
 * it has no others. `repairs` is set if a value was touched. */
static bool is_same_shape(const Environment *environment, HV *hash, bool *repairs) {
    const Slot *slot = environment->slots;
    const Slot *const slots_end = slot + environment->slot_count;
    if (HvARRAY(hash) != environment->buckets || HvMAX(hash) != environment->bucket_maximum
        || HvTOTALKEYS(hash) != environment->slot_count)
        return FALSE;
#ifdef COMPARES_PAIRS
    Pair entries = {0, 0}, values = {0, 0};
    for (; slot < slots_end; slot++) {
        const HE *entry = *slot->link;
        if (UNLIKELY(entry != slot->entry))
            return FALSE;
        /* Name and value of the entry; and the parts of the value that is_touched() compares. */
        entries |= *(const Pair *)&entry->hent_hek ^ *(const Pair *)&slot->name;
        values |= *(const Pair *)&HeVAL(entry)->sv_refcnt ^ *(const Pair *)&slot->references;
    }
    *repairs = (entries[1] | values[0] | values[1]) != 0;
    return entries[0] == 0;
#else
    UV touched = 0;
    for (; slot < slots_end; slot++) {
        const HE *entry = *slot->link;
        if (UNLIKELY(entry != slot->entry || HeKEY_hek(entry) != slot->name))
            return FALSE;
        touched |= is_touched(slot, HeVAL(entry));
    }
    *repairs = touched != 0;
    return TRUE;
#endif
}

/* Finds the entries that the app has added. Returns FALSE if the recorded entries are not all there in the same order. */
static bool find_foreign(const Environment *environment, HV *hash, HE **foreign, U32 *foreign_count) {
    U32 place = 0;
    HE **buckets = HvARRAY(hash);
    *foreign_count = 0;
    for (STRLEN bucket = 0; bucket <= HvMAX(hash); bucket++) {
        for (HE *entry = buckets[bucket]; entry; entry = HeNEXT(entry)) {
            const Slot *slot = &environment->slots[place];
            if (place < environment->slot_count && slot->entry == entry && slot->name == HeKEY_hek(entry))
                place++;
            else if (*foreign_count == SLOTS_MAXIMUM)
                return FALSE;
            else
                foreign[(*foreign_count)++] = entry;
        }
    }
    return place == environment->slot_count;
}

static void repair_all(pTHX_ Environment *environment) {
    for (U32 i = 0; i < environment->slot_count; i++)
        if (!is_usable(&environment->slots[i], HeVAL(environment->slots[i].entry)))
            repair(aTHX_ &environment->slots[i]);
}

/* Whether a request has left an object unchanged, and nothing else refers to it. */
static bool is_reusable(pTHX_ const Environment *environment, U32 psgi_key, SV *object) {
    if (SvREFCNT(object) != 1)
        return FALSE;
    switch (psgi_key) {
    case PSGI_INPUT:
        return input_is_pristine(aTHX_ environment, object);
    case PSGI_ERRORS:
        return errors_is_pristine(aTHX_ environment, object);
    case PSGIX_IO:
        return socket_is_pristine(environment, object);
    case PSGIX_INFORMATIONAL:
        return informational_is_private(object);
    default:
        return SvTYPE(object) == SVt_PVAV && !SvMAGIC(object) && !SvOBJECT(object) && !SvREADONLY(object)
               && AvFILLp((AV *)object) < 0;
    }
}

/* Replaces the objects of a request that cannot be reused. So its content is freed now, and a hijacked socket is closed. */
static void repair_objects(pTHX_ Environment *environment) {
    static const U32 direct[] = {PSGI_INPUT, PSGIX_CLEANUP_HANDLERS, PSGIX_IO, PSGIX_INFORMATIONAL};
    static const U32 through_gateway[] = {PSGI_INPUT, PSGIX_CLEANUP_HANDLERS, PSGI_ERRORS};
    const U32 *keys = environment->gateway ? through_gateway : direct;
    const size_t count = environment->gateway ? C_ARRAY_LENGTH(through_gateway) : C_ARRAY_LENGTH(direct);
    for (size_t i = 0; i < count; i++) {
        Slot *slot = environment->places[environment->server_keys + keys[i]];
        if ((keys[i] == PSGI_INPUT && environment->has_content)
            || !is_reusable(aTHX_ environment, keys[i], slot->expected.referent))
            repair(aTHX_ slot);
    }
}

bool environment_return_untouched(pTHX_ Context *context, HV *hash) {
    Environment *environment = &context->environment;
    const Slot *handlers;
    bool repairs;
    settle_reference(aTHX_ environment, hash);
    if (!environment->rememberable || !is_ours(aTHX_ environment, hash) || !is_same_shape(environment, hash, &repairs))
        return FALSE;
    handlers = environment->places[environment->server_keys + PSGIX_CLEANUP_HANDLERS];
    if (is_touched(handlers, HeVAL(handlers->entry))
        || !is_reusable(aTHX_ environment, PSGIX_CLEANUP_HANDLERS, handlers->expected.referent))
        return FALSE;
    if (repairs)
        repair_all(aTHX_ environment);
    repair_objects(aTHX_ environment);
    environment->hash = hash;
    return TRUE;
}

void environment_return(pTHX_ Context *context, HV *hash) {
    Environment *environment = &context->environment;
    HE *foreign[SLOTS_MAXIMUM];
    U32 foreign_count;
    settle_reference(aTHX_ environment, hash);
    if (environment->hash || !environment->rememberable || !is_ours(aTHX_ environment, hash)
        || !find_foreign(environment, hash, foreign, &foreign_count)) {
        SvREFCNT_dec(environment->reference);
        environment->reference = NULL;
        SvREFCNT_dec(hash);
        return;
    }
    for (U32 i = 0; i < foreign_count; i++) {
        SV *name = newSVhek(HeKEY_hek(foreign[i]));
        (void)hv_delete_ent(hash, name, G_DISCARD, 0);
        SvREFCNT_dec_NN(name);
    }
    repair_all(aTHX_ environment);
    repair_objects(aTHX_ environment);
    environment->hash = hash;
    environment_remember(environment);
}
