"""Controls that pages share: shell, header, rail, selection strip, cards."""
