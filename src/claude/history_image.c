/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/history_internal.h"

#include <stdint.h>
#include <string.h>

#include "base/sbuf.h"
#include "model/output.h"

/*
 * The smallest limits of all models. One image that is refused would make every
 * later request refused, since the history cannot be changed, and beyond 20
 * images 2000 pixels hold for all of them, also those sent before.
 */
#define MAX_IMAGES 100
#define MAX_SIDE_PX 2000
#define MAX_BASE64_BYTES ((size_t)10000000)

#define IMAGE_HEAD                                                             \
    ",{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":"     \
    "\"image/png\",\"data\":\""
#define IMAGE_TAIL "\"}}"

static size_t
base64_bytes(size_t len)
{
    return (len + 2) / 3 * 4;
}

size_t
history_image_bytes(size_t len)
{
    return strlen(IMAGE_HEAD IMAGE_TAIL) + base64_bytes(len);
}

static void
add_base64(struct sbuf *sb, const unsigned char *data, size_t len)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char group[4];

    for (size_t i = 0; i < len; i += 3) {
        size_t n = len - i < 3 ? len - i : 3;
        uint32_t bits = (uint32_t)data[i] << 16;

        if (n > 1) {
            bits |= (uint32_t)data[i + 1] << 8;
        }
        if (n > 2) {
            bits |= data[i + 2];
        }
        for (size_t k = 0; k < 4; k++) {
            group[k] = k <= n ? digits[bits >> (18 - 6 * k) & 63] : '=';
        }
        sbuf_add(sb, group, sizeof(group));
    }
}

/* NULL when it can be added. */
static const char *
find_fault(const struct claude_image *image, size_t n_bytes, size_t n_images)
{
    int width_px;
    int height_px;

    /* What the file itself says counts. */
    if (!output_png_size(image->png, image->len, &width_px, &height_px)) {
        return "it is no PNG";
    }
    if (width_px > MAX_SIDE_PX || height_px > MAX_SIDE_PX) {
        return "a side has more than 2000 pixels";
    }
    if (base64_bytes(image->len) > MAX_BASE64_BYTES) {
        return "it has more than 10 MB";
    }
    if (n_images >= MAX_IMAGES) {
        return "the conversation has 100 images already";
    }
    if (n_bytes + history_image_bytes(image->len) > HISTORY_MAX_IMAGES_BYTES) {
        return "the conversation has no room for it";
    }
    return NULL;
}

void
history_add_image(struct sbuf *sb, const struct claude_image *image,
                  size_t n_bytes, size_t *n_images)
{
    const char *fault = find_fault(image, n_bytes + sb->len, *n_images);

    if (fault != NULL) {
        sbuf_addf(sb,
                  ",{\"type\":\"text\",\"text\":\"[image of %dx%d pixels, not "
                  "sent: %s]\"}",
                  image->width_px, image->height_px, fault);
        return;
    }
    sbuf_add_str(sb, IMAGE_HEAD);
    add_base64(sb, image->png, image->len);
    sbuf_add_str(sb, IMAGE_TAIL);
    (*n_images)++;
}
