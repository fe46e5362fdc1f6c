//! rich_send and rich_edit: two tools for an agent that posts rich Matrix messages.
