#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Proves the fake of an E2B service with the vendor's unmodified SDKs.
exec sh "$(dirname "$0")/run.sh" e2b-js e2b-python e2b-old
